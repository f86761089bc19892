"""Finds llama.cpp and binds the few C functions that states need.

The Python interfaces of the packages that bring llama.cpp do not reach states of sequences, or change them behind
one's back; the C functions are called directly. Only builds that were tested are used: structs drift between builds.
"""

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from precog.backbones.gguf.layout import Batch, ContextParams, ModelParams, check_layout
from precog.errors import ModelError

TESTED = {"xllamacpp": ("xllamacpp", "2026.10.11549"), "llama_cpp": ("llama-cpp-python", "0.3.36")}
INSTALL = "pip install 'precog-ssm[gguf]'"
STOPPED = "error: llama.cpp stopped this program, the model file may be damaged: "
_ERROR = 4  # level of a line of llama.cpp's log
_CONTINUED = 5

_LogLine = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_Abort = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


class Log:
    """What llama.cpp says of errors: its last lines; nothing reaches stderr unless ``PRECOG_DEBUG`` is 1."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=8)
        self._shown = os.environ.get("PRECOG_DEBUG") == "1"
        self.callback, self.on_abort = _LogLine(self._take), _Abort(self._stop)

    def _take(self, level: int, text: bytes | None, _data: int | None) -> None:
        line = (text or b"").decode(errors="replace")
        if self._shown:
            sys.stderr.write(line)
        if level == _ERROR:
            self._lines.append(" ".join(line.split()))
        elif level == _CONTINUED and self._lines:
            self._lines[-1] = " ".join([*self._lines[-1].split(), *line.split()])

    def _stop(self, text: bytes | None) -> None:
        """The last line of a process that llama.cpp is about to end: it aborts on what it holds to be impossible."""
        said = " ".join((text or b"").decode(errors="replace").split())
        sys.stderr.write(f"{STOPPED}{said}\n")
        sys.stderr.flush()
        os._exit(1)  # nothing is half-written: files appear only when they are whole

    def clear(self) -> None:
        """Forget earlier lines."""
        self._lines.clear()

    @property
    def reason(self) -> str:
        """The first error since `clear`, without the name of the function that wrote it."""
        first = next((line for line in self._lines if line), "it gave no reason")
        return first.partition(": ")[2] or first


_LOGS: list[Log] = []  # llama.cpp keeps their addresses to the end of the process


@dataclass(frozen=True)
class Library:
    """llama.cpp, loaded.

    Attributes:
        name: package and version, for messages.
        functions: the C library with prototypes set.
        model_params: default settings of loading a file.
        context_params: default settings of computing.
        log: what it says.
    """

    name: str
    functions: ctypes.CDLL
    model_params: Callable[[], ctypes.Structure]
    context_params: Callable[[], ctypes.Structure]
    log: Log


@cache
def load_library() -> Library:
    """The first tested llama.cpp that is installed; loaded once per process.

    Raises:
        ModelError: none is installed or none is of a tested version, or it cannot be loaded.
    """
    untested = ""
    for module, (package, tested) in TESTED.items():
        if find_spec(module) is None:
            continue
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "of an unknown version"
        if found != tested:
            untested = untested or f"{package} {found}"
            continue
        try:
            return _bound(module, f"{package} {found}")
        except (OSError, ImportError, RuntimeError, AttributeError) as error:
            raise ModelError(f"{package} {found} cannot be loaded: {error}", hint=INSTALL) from error
    if untested:
        expected = " or ".join(f"{package} {tested}" for package, tested in TESTED.values())
        raise ModelError("this llama.cpp was not tested", given=untested, expected=expected, hint=INSTALL)
    raise ModelError("GGUF files need llama.cpp, which is not installed", hint=INSTALL)


def _bound(module: str, name: str) -> Library:
    model_type: type[ctypes.Structure] = ModelParams
    context_type: type[ctypes.Structure] = ContextParams
    if module == "llama_cpp":  # it knows the structs of the library it was built with
        theirs = import_module("llama_cpp.llama_cpp")
        model_type, context_type = theirs.llama_model_params, theirs.llama_context_params
        file = theirs._lib._name
    else:
        file = _shared_object(module)
    functions = ctypes.CDLL(file)
    _prototypes(functions, model_type, context_type)
    log = Log()
    _LOGS.append(log)
    functions.llama_log_set(log.callback, None)
    functions.ggml_set_abort_callback(log.on_abort)
    functions.llama_backend_init()
    model_params, context_params = functions.llama_model_default_params, functions.llama_context_default_params
    check_layout(model_params(), context_params(), name)
    return Library(name, functions, model_params, context_params, log)


def _shared_object(module: str) -> str:
    spec = find_spec(module)
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    files = [file for folder in folders for pattern in ("*.so", "*.pyd") for file in Path(folder).glob(pattern)]
    if len(files) != 1:
        raise OSError(f"{len(files)} shared libraries in it")
    return str(files[0])


def _prototypes(
    functions: ctypes.CDLL, model_params: type[ctypes.Structure], context_params: type[ctypes.Structure]
) -> None:
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    int32, flag, nothing = ctypes.c_int32, ctypes.c_bool, None
    for name, result, *arguments in (
        ("llama_log_set", nothing, _LogLine, pointer),
        ("ggml_set_abort_callback", pointer, _Abort),
        ("llama_backend_init", nothing),
        ("llama_model_default_params", model_params),
        ("llama_context_default_params", context_params),
        ("llama_model_load_from_file", pointer, text, model_params),
        ("llama_model_free", nothing, pointer),
        ("llama_model_get_vocab", pointer, pointer),
        ("llama_model_is_recurrent", flag, pointer),
        ("llama_model_is_hybrid", flag, pointer),
        ("llama_model_n_layer", int32, pointer),
        ("llama_model_size", ctypes.c_uint64, pointer),
        ("llama_model_n_params", ctypes.c_uint64, pointer),
        ("llama_model_meta_val_str", int32, pointer, text, text, size),
        ("llama_init_from_model", pointer, pointer, context_params),
        ("llama_free", nothing, pointer),
        ("llama_n_batch", ctypes.c_uint32, pointer),
        ("llama_n_ubatch", ctypes.c_uint32, pointer),
        ("llama_get_memory", pointer, pointer),
        ("llama_memory_clear", nothing, pointer, flag),
        ("llama_decode", int32, pointer, Batch),
        ("llama_get_logits", ctypes.POINTER(ctypes.c_float), pointer),
        ("llama_state_seq_get_size", size, pointer, int32),
        ("llama_state_seq_get_data", size, pointer, pointer, size, int32),
        ("llama_state_seq_set_data", size, pointer, pointer, size, int32),
        ("llama_vocab_n_tokens", int32, pointer),
        ("llama_vocab_type", ctypes.c_int, pointer),
        ("llama_vocab_get_text", text, pointer, int32),
        ("llama_vocab_bos", int32, pointer),
        ("llama_vocab_eos", int32, pointer),
        ("llama_vocab_eot", int32, pointer),
        ("llama_vocab_get_add_bos", flag, pointer),
        ("llama_vocab_is_control", flag, pointer, int32),
        ("llama_tokenize", int32, pointer, text, int32, pointer, int32, flag, flag),
        ("llama_token_to_piece", int32, pointer, int32, text, int32, int32, flag),
    ):
        function = getattr(functions, name)
        function.restype, function.argtypes = result, arguments
