"""Layouts of llama.cpp's structs: they change between builds, so each tested build has its own here."""

import ctypes

from precog.errors import ModelError


class ModelParams(ctypes.Structure):
    """How a file is loaded, as of xllamacpp 2026.10."""

    _fields_ = (
        ("devices", ctypes.c_void_p),
        ("tensor_buft_overrides", ctypes.c_void_p),
        ("n_gpu_layers", ctypes.c_int32),
        ("split_mode", ctypes.c_int),
        ("load_mode", ctypes.c_int),
        ("lazy_mode", ctypes.c_int),
        ("main_gpu", ctypes.c_int32),
        ("tensor_split", ctypes.c_void_p),
        ("progress_callback", ctypes.c_void_p),
        ("progress_callback_user_data", ctypes.c_void_p),
        ("kv_overrides", ctypes.c_void_p),
        ("vocab_only", ctypes.c_bool),
        ("check_tensors", ctypes.c_bool),
        ("use_extra_bufts", ctypes.c_bool),
        ("no_host", ctypes.c_bool),
        ("no_alloc", ctypes.c_bool),
        ("load_mtp", ctypes.c_bool),
    )


class ContextParams(ctypes.Structure):
    """How a model computes, as of xllamacpp 2026.10."""

    _fields_ = (
        ("n_ctx", ctypes.c_uint32),
        ("n_batch", ctypes.c_uint32),
        ("n_ubatch", ctypes.c_uint32),
        ("n_seq_max", ctypes.c_uint32),
        ("n_rs_seq", ctypes.c_uint32),
        ("n_outputs_max", ctypes.c_uint32),
        ("n_outputs_max_per_seq", ctypes.c_uint32),
        ("n_threads", ctypes.c_int32),
        ("n_threads_batch", ctypes.c_int32),
        ("ctx_type", ctypes.c_int),
        ("rope_scaling_type", ctypes.c_int),
        ("pooling_type", ctypes.c_int),
        ("attention_type", ctypes.c_int),
        ("flash_attn_type", ctypes.c_int),
        ("rope_freq_base", ctypes.c_float),
        ("rope_freq_scale", ctypes.c_float),
        ("yarn_ext_factor", ctypes.c_float),
        ("yarn_attn_factor", ctypes.c_float),
        ("yarn_beta_fast", ctypes.c_float),
        ("yarn_beta_slow", ctypes.c_float),
        ("yarn_orig_ctx", ctypes.c_uint32),
        ("defrag_thold", ctypes.c_float),
        ("cb_eval", ctypes.c_void_p),
        ("cb_eval_user_data", ctypes.c_void_p),
        ("type_k", ctypes.c_int),
        ("type_v", ctypes.c_int),
        ("abort_callback", ctypes.c_void_p),
        ("abort_callback_data", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p),  # a setting that this build adds; zero unless asked for
        ("embeddings", ctypes.c_bool),
        ("offload_kqv", ctypes.c_bool),
        ("no_perf", ctypes.c_bool),
        ("op_offload", ctypes.c_bool),
        ("swa_full", ctypes.c_bool),
        ("kv_unified", ctypes.c_bool),
        ("samplers", ctypes.c_void_p),
        ("n_samplers", ctypes.c_size_t),
        ("ctx_other", ctypes.c_void_p),
    )


class Batch(ctypes.Structure):
    """Tokens of one pass; the same in every build since 2024."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.c_void_p),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.c_void_p),
        ("n_seq_id", ctypes.c_void_p),
        ("seq_id", ctypes.c_void_p),
        ("logits", ctypes.c_void_p),
    )


# What a build's own defaults must read as, field by field, if the layout is the one it was built with.
_DEFAULTS: dict[str, object] = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_rs_seq": 0,
    "rope_scaling_type": -1,
    "yarn_ext_factor": -1.0,
    "yarn_beta_slow": -1.0,
    "type_k": 1,
    "type_v": 1,
    "embeddings": False,
    "no_perf": True,
    "kv_unified": False,
    "n_samplers": 0,
}
_MODEL_DEFAULTS: dict[str, object] = {"main_gpu": 0, "vocab_only": False, "check_tensors": False, "no_alloc": False}


def check_layout(model: ctypes.Structure, context: ctypes.Structure, library: str) -> None:
    """Compares the defaults a library gives with what they must read as.

    Raises:
        ModelError: a field reads as something else: the structs of this build are laid out in another way.
    """
    for params, expected in ((model, _MODEL_DEFAULTS), (context, _DEFAULTS)):
        for name, value in expected.items():
            found = getattr(params, name, None)
            if found != value:
                raise ModelError(
                    f"{library} lays out its settings in another way: {name} reads {found}", expected=value
                )
