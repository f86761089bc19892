"""An agent's side of `precog mcp`: remembers, asks, forgets. Usage: python mcp_client.py CORPUS"""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters


async def main(corpus: str) -> None:
    command = ["-m", "precog", "mcp", "--user", "example-mcp", "--corpus", corpus, "--allow-write"]
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    async with Client(server) as client:
        kept = await client.call_tool("remember", {"text": "Clara moved to Lisbon in May."})
        answer = await client.call_tool("ask", {"question": "Where did Clara move?", "always_answer": True})
        print(answer.content[0].text)
        forgotten = await client.call_tool("forget", {"ids": kept.structured_content["ids"]})
        print(forgotten.content[0].text)


asyncio.run(main(sys.argv[1]))
