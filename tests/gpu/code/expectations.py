"""What the kernels' machine code is expected to have and allowed to have (code_rules.py)."""

# (source, kernel, bytes, reason)
STACKS = [
    ("resize_kernels.cu", r"change_blocks(_of_channels)?_kernel<.*, Noise>", 32,
     "what sinf and cosf keep of angles over 100,000, which do not occur"),
    ("image_transform_kernels.cu", r"transform_images_kernel<.*>", 56,
     "the order of an image's changes is drawn by one thread of a block"),
]

# (source, kernel, loads, stores): so many instructions of 16 bytes at least, in loops
PACKS = [
    ("accumulation_kernels.cu", r"map_kernel<(\w+), Scale, \1>", 1, 1),
    ("accumulation_kernels.cu", r"map_kernel<(\w+), AddScaled, \1, \1>", 2, 1),
    ("activation_kernels.cu", r"map_kernel<(\w+), \w+, \1>", 1, 1),
    ("activation_kernels.cu", r"map_kernel<(\w+), \w+, \1, \1>", 2, 1),
    ("elementwise_map_kernels.cu", r"map_kernel<(\w+), \w+, \1>", 1, 1),
    # This one does not need x.
    ("elementwise_map_kernels.cu", r"map_kernel<(\w+), AffineGradient, \1, \1>", 1, 1),
    ("elementwise_map_kernels.cu", r"map_kernel<(\w+), (?!AffineGradient)\w+, \1, \1>", 2, 1),
    ("elementwise_binary_kernels.cu", r"map_kernel<(\w+), \w+, \1, \1>", 2, 1),
    ("elementwise_binary_kernels.cu", r"map_kernel<(\w+), \w+, \1, \1, \1>", 3, 1),
    ("update_kernels.cu", r"update_kernel<(Sgd|Combine), .*>", 2, 1),
    ("update_kernels.cu", r"update_kernel<(MomentumSgd|Nesterov|RmsProp|AdaGrad), .*>", 3, 2),
    ("update_kernels.cu", r"update_kernel<(Adam|AdaDelta), .*>", 4, 3),
    ("lamb_kernels.cu", r"lamb_kernel<.*>", 3, 1),
    ("batch_norm_maps.cu", r"map_(rows|planes)_kernel<[48], ApplyMap<.*> ?>", 1, 1),
    ("batch_norm_maps.cu", r"map_(rows|planes)_kernel<[48], GradientMap<.*, false> ?>", 2, 1),
    ("batch_norm_maps.cu", r"map_(rows|planes)_kernel<[48], GradientMap<.*, true> ?>", 3, 1),
    # Four rows are under way at once.
    ("batch_norm_sums.cu", r"sum_rows_kernel<[48], StatisticsTerms<.*> ?>", 4, 0),
    ("batch_norm_sums.cu", r"sum_rows_kernel<[48], GradientTerms<.*> ?>", 8, 0),
    ("batch_norm_sums.cu", r"sum_planes_kernel<[48], StatisticsTerms<.*> ?>", 1, 0),
    ("batch_norm_sums.cu", r"sum_planes_kernel<[48], GradientTerms<.*> ?>", 2, 0),
    ("copy_kernels.cu", r"convert_eights_kernel<__\w+, __\w+>", 1, 1),
    ("copy_kernels.cu", r"convert_eights_kernel<__\w+, float>", 2, 1),
    ("copy_kernels.cu", r"convert_eights_kernel<float, __\w+>", 1, 2),
    ("copy_kernels.cu", r"convert_eights_kernel<float, float>", 2, 2),
    ("copy_kernels.cu", r"copy_runs_kernel<uint4, .*>", 1, 1),
    ("wire_kernels.cu", r"scale_kernel<__\w+, float>", 2, 1),
    ("wire_kernels.cu", r"scale_kernel<float, __\w+>", 1, 2),
    ("filter_kernels.cu", r"add_bias_packed_kernel<.*>", 1, 1),
    ("filter_kernels.cu", r"pad_channels_kernel<.*>", 0, 1),
    ("gather_kernels.cu", r"gather_kernel<4, [a-z ]+, (float|int), \1>", 1, 1),
    ("gather_kernels.cu", r"gather_kernel<4, [a-z ]+, (double|long), \1>", 2, 2),
    ("gather_kernels.cu", r"gather_kernel<4, [a-z ]+, float, unsigned char>", 0, 1),
    ("gather_kernels.cu", r"gather_kernel<4, [a-z ]+, __\w+, float>", 1, 0),
    # Four numbers of a draw, for 16 bytes of float32; two draws for 16 bits.
    ("dropout_kernels.cu", r"change_blocks_kernel<4, [a-z ]+, float, Dropout>", 1, 1),
    ("dropout_kernels.cu", r"change_blocks_kernel<8, [a-z ]+, __\w+, Dropout>", 1, 1),
    ("resize_kernels.cu", r"change_blocks_kernel<4, [a-z ]+, float, Noise>", 1, 1),
    ("resize_kernels.cu", r"change_blocks_kernel<8, [a-z ]+, __\w+, Noise>", 1, 1),
    ("long_rows_cross_entropy.cu", r"long_rows_kernel<.*>", 1, 0),
    ("long_rows_cross_entropy.cu", r"long_rows_gradient_kernel<.*>", 1, 1),
    ("layer_norm_kernels.cu", r"layer_norm_kernel<1, .*>", 1, 1),
    ("layer_norm_kernels.cu", r"layer_norm_kernel<4, .*>", 4, 4),
    ("layer_norm_kernels.cu", r"layer_norm_gradient_kernel<1, .*>", 3, 1),
    ("layer_norm_kernels.cu", r"layer_norm_gradient_kernel<4, .*>", 12, 4),
    ("pooling_kernels.cu", r"max_pool_kernel<.*, [48], .*>", 1, 1),
    ("pooling_kernels.cu", r"max_pool_backward_kernel<.*, [48], .*>", 1, 1),
    ("pooling_kernels.cu", r"average_pool_kernel<.*, [48], .*>", 1, 1),
    ("pooling_kernels.cu", r"average_pool_backward_kernel<.*, [48], .*>", 1, 1),
    # A row's columns are loaded 16 bytes at once, in loops of their own.
    ("attention_kernels.cu", r"attention_kernel<.*>", 2, 0),
    ("attention_kernels.cu", r"(query|key)_gradient_kernel<.*>", 2, 0),
    # Keys and values in the loop over tiles; queries, and what is loaded once, in one of their own.
    ("attention_tensor_cores.cu", r"attention_kernel<.*>", 2, 0),
    ("attention_tensor_cores.cu", r"(query|key)_gradient_kernel<.*>", 2, 0),
]

# Loops may call these for few values: those whose exponent or result is near the end of float's range.
CALLS_FOR_FEW_VALUES = {
    "__cuda_sm3x_div_rn_noftz_f32_slowpath",
    "__cuda_sm20_rcp_rn_f32_slowpath",
    "__cuda_sm20_sqrt_rn_f32_slowpath",
}

DIVISION, REMAINDER = "__cuda_sm20_div_s64", "__cuda_sm20_rem_s64"
OF_DOUBLES = "__cuda_sm20_div_rn_f64_full"
RECIPROCAL_OF_DOUBLE = "__cuda_sm20_dblrcp_rn_slowpath_v3"
ROOT_OF_DOUBLE = "__cuda_sm20_dsqrt_rn_f64_mediumpath_v1"

# reason: {source: {kernels: routines}}
CALLS = {
    "32 bits cannot number the elements; smaller arrays have kernels of their own": {
        "array_kernels.cu": {
            r"to_strided_kernel<.*, long>": [DIVISION],
            r"from_strided_kernel<.*, long>": [DIVISION],
        },
        "copy_kernels.cu": {r"copy_runs_kernel<.*, long>": [DIVISION]},
        "cross_entropy_kernels.cu": {r"softmax_backward_kernel<long, .*>": [DIVISION]},
        "dropout_kernels.cu": {
            r"change_blocks_kernel<\w+, long, .*>": [DIVISION],
            r"change_blocks_of_channels_kernel<long, .*>": [DIVISION],
        },
        "elementwise_binary_kernels.cu": {
            r"combine2_kernel<.*, long>": [DIVISION],
            r"combine3_kernel<.*, long>": [DIVISION],
        },
        "embedding_kernels.cu": {r"embed_kernel<long, .*>": [DIVISION]},
        "filter_kernels.cu": {
            r"(add_bias|count_differing)_kernel<long, .*>": [DIVISION, REMAINDER],
            r"add_bias_packed_kernel<long, .*>": [REMAINDER],
            r"pad_channels_kernel<long, .*>": [DIVISION],
        },
        "gather_kernels.cu": {r"gather_kernel<\d, long, .*>": [DIVISION]},
        "loss_kernels.cu": {r"cross_entropy_backward_kernel<long, .*>": [DIVISION]},
        "normalization_kernels.cu": {
            r"channel_parameters_kernel<long, .*>": [DIVISION],
            r"normalize_kernel<long, .*>": [DIVISION],
            r"normalize_gradient_kernel<long, .*>": [DIVISION],
        },
        "pooling_kernels.cu": {
            r"max_pool_kernel<.*, long>": [DIVISION],
            r"max_pool_backward_kernel<.*, long>": [DIVISION],
            r"average_pool_kernel<.*, long>": [DIVISION],
            r"average_pool_backward_kernel<.*, long>": [DIVISION],
        },
        "recurrent_kernels.cu": {
            r"begin_states_kernel<.*, long>": [DIVISION],
            r"begin_gradients_kernel<.*, long>": [DIVISION],
            r"end_states_kernel<.*, long>": [DIVISION],
            r"end_gradients_kernel<.*, long>": [DIVISION],
            r"pack_kernel<.*, long>": [DIVISION],
            r"step_kernel<.*, long>": [DIVISION],
            r"step_backward_kernel<.*, long>": [DIVISION],
        },
        "reduce_kernels.cu": {
            r"add_bias_kernel<long, .*>": [REMAINDER],
            r"channel_sums_kernel<long, .*>": [DIVISION],
        },
        "resize_kernels.cu": {
            r"change_blocks_kernel<\w+, long, .*>": [DIVISION],
            r"change_blocks_of_channels_kernel<long, .*>": [DIVISION],
            r"resize_kernel<long, .*>": [DIVISION],
            r"resize_backward_kernel<long, .*>": [DIVISION],
        },
        "response_norm_kernels.cu": {
            r"response_norm_kernel<long, .*>": [DIVISION, REMAINDER],
            r"response_norm_backward_kernel<long, .*>": [DIVISION, REMAINDER],
        },
    },
    "once for each row, column, piece or tile, whose elements follow without a division of 64 bits": {
        "array_kernels.cu": {
            r"reduce_rows_kernel<.*>": [DIVISION],
            r"reduce_columns_kernel<.*>": [DIVISION],
        },
        "copy_kernels.cu": {r"transpose_kernel<.*>": [DIVISION]},
        "embedding_gradient.cu": {
            r"add_pieces_kernel<.*>": [DIVISION],
            r"join_pieces_kernel": [DIVISION],
        },
        "filter_kernels.cu": {
            r"to_channels_last_kernel<.*>": [DIVISION],
            r"from_channels_last_kernel<.*>": [DIVISION],
        },
        "loss_kernels.cu": {r"cross_entropy_kernel<.*>": [DIVISION]},
        "normalization_kernels.cu": {
            r"softmax_kernel<.*>": [DIVISION],
            r"softmax_gradient_kernel<.*>": [DIVISION],
            r"normalize_kernel<.*>": [REMAINDER],
            r"normalize_gradient_kernel<.*>": [REMAINDER],
        },
    },
    "in double, once for each channel or parameter": {
        "batch_norm_sums.cu": {
            r"finish_gradient_kernel": [OF_DOUBLES],
            r"gradient_means_kernel": [OF_DOUBLES],
            r"finish_statistics_kernel<.*>": [OF_DOUBLES, RECIPROCAL_OF_DOUBLE, ROOT_OF_DOUBLE],
            r"from_sums_kernel": [OF_DOUBLES, RECIPROCAL_OF_DOUBLE, ROOT_OF_DOUBLE],
            r"inverse_deviation_kernel": [RECIPROCAL_OF_DOUBLE, ROOT_OF_DOUBLE],
        },
        "update_kernels.cu": {r"join_norms_kernel": [ROOT_OF_DOUBLE]},
        "lamb_kernels.cu": {
            r"lamb_ratios_kernel": [OF_DOUBLES, ROOT_OF_DOUBLE, "__internal_accurate_pow"],
        },
    },
}

# (source, kernel)
SUMS_IN_REGISTERS = [
    ("batch_norm_sums.cu", r"sum_rows_kernel<.*>"),
    ("batch_norm_sums.cu", r"sum_planes_kernel<.*>"),
]

# (source, kernel, multiplications for each load from shared memory). A warp's load of 16 bytes takes 2 cycles or
# more, in which a multiprocessor multiplies 8 times.
REUSE = [
    ("attention_kernels.cu", r"(attention|query_gradient)_kernel<(32|64|128), .*>", 8),
    ("attention_kernels.cu", r"key_gradient_kernel<(32|64), .*>", 8),
    # Wide heads leave registers for few rows.
    ("attention_kernels.cu", r"(attention|query_gradient)_kernel<256, .*>", 6),
    ("attention_kernels.cu", r"key_gradient_kernel<128, .*>", 6),
    ("attention_kernels.cu", r"key_gradient_kernel<256, .*>", 3),
]
