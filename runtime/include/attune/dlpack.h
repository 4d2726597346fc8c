#ifndef ATTUNE_DLPACK_H
#define ATTUNE_DLPACK_H
/* DLPack's header, of version 1 or earlier, and what versions before 1.0 lack. For C and C++. An application that
 * has DLPack tensors has that header; if it is a framework's own copy elsewhere, include that first. */
#if !defined(DLPACK_DLPACK_H_) && defined(__has_include)
#if !__has_include(<dlpack/dlpack.h>)
#error \
    "attune/dlpack.h: expected DLPack's header dlpack/dlpack.h, got none; try Debian's libdlpack-dev, conda's or vcpkg's dlpack, or including your framework's own copy first"
#endif
#endif
#ifndef DLPACK_DLPACK_H_
#include <dlpack/dlpack.h>
#endif

#ifndef DLPACK_MAJOR_VERSION
typedef struct {
    uint32_t major;
    uint32_t minor;
} DLPackVersion;

/* A tensor of DLPack 1. The first three fields stay in all later versions. */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void* manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned* self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#define DLPACK_FLAG_BITMASK_READ_ONLY 1UL
#elif DLPACK_MAJOR_VERSION != 1
#error "attune/dlpack.h: expected DLPack's header of version 1 or earlier, got a later one; try that of version 1"
#endif

#endif
