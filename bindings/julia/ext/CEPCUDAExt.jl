# SPDX-License-Identifier: Apache-2.0
# Julia 1.9 and later load this where both packages are loaded: spans without a stream are on that of their task.
module CEPCUDAExt

using CEP, CUDA

task_stream() = CUDA.functional() ? CUDA.stream() : C_NULL

function __init__()
    CEP.LOADED_STREAM[] = task_stream
end

end
