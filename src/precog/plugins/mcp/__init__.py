"""One user's memory and documents for agents, over the Model Context Protocol."""
