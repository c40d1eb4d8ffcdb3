/* SPDX-License-Identifier: MIT
 *
 * Tensors and their element types, independent of any file format.
 *
 * A tensor is a row-major, contiguous, little-endian block of elements with a dtype and a shape. Handles are
 * opaque and reference counted; the count is atomic, so references may be taken and dropped from any thread.
 * All functions here may be called from any thread at once; who writes to a tensor's data guards them
 * himself.
 */
#ifndef SAFETENSORS_TENSOR_H
#define SAFETENSORS_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. The first 22 are the codes of the safetensors format, in the order in which its reference
 * implementation declares them (safetensors 0.6, `enum Dtype`): the order by which tensors are sorted on
 * disk.
 */
typedef enum tm_dtype {
    TM_BOOL,    /* one byte each, 0 or 1 */
    TM_F4,      /* two elements a byte */
    TM_F6_E2M3, /* four elements in three bytes */
    TM_F6_E3M2, /* four elements in three bytes */
    TM_U8,
    TM_I8,
    TM_F8_E5M2,
    TM_F8_E4M3,
    TM_F8_E8M0,
    TM_F8_E4M3FNUZ,
    TM_F8_E5M2FNUZ,
    TM_I16,
    TM_U16,
    TM_F16,
    TM_BF16,
    TM_I32,
    TM_U32,
    TM_F32,
    TM_C64, /* two F32: real, imaginary */
    TM_F64,
    TM_I64,
    TM_U64,
    TM_SAFETENSORS_CODES, /* how many there are; not a type */

    /* Types that PyTorch has and the safetensors format has no code for; the codes are this project's. */
    TM_C128 = 64, /* two F64 */
    TM_C32,       /* two F16 */
    TM_BC32,      /* two BF16 */
    TM_F4_X2,     /* a byte that holds two 4-bit floats; the shape counts bytes */
    TM_BITS8,
    TM_BITS1X8,
    TM_BITS2X4,
    TM_BITS4X2,
    TM_BITS16,
    TM_QI8, /* quantized: these three are shown as I8, U8 and I32 */
    TM_QU8,
    TM_QI32,
    TM_QU4X2, /* two elements a byte; the last byte may be used in part */
    TM_QU2X4, /* four elements a byte; likewise */
} tm_dtype;

typedef struct tm_tensor tm_tensor;

/* Code of a dtype, for example "BF16"; NULL if d is none. Static memory. */
const char *tm_dtype_name(tm_dtype d);

/* The dtype with exactly that code (case matters). 0, or -EINVAL if there is none. */
int tm_dtype_from_name(const char *name, tm_dtype *d);

/* Bits of one element: 2, 4, 6, 8, 16, 32, 64 or 128; 0 if d is none. */
unsigned tm_dtype_bits(tm_dtype d);

/* NumPy's type string ("<f4", "|u1"), or NULL where elements are no whole bytes. BF16 is given as "<u2", the
 * 8-bit floats as "|u1", and what else NumPy has no type for as unsigned integers of the same bits. Static
 * memory. */
const char *tm_dtype_numpy(tm_dtype d);

/* Bytes of a tensor: the product of the dimensions times the bits of an element, divided by 8. 0 in *nbytes
 * for a shape with a zero dimension. -EOVERFLOW if a running product leaves 64 bits (also before a later
 * zero, as the reference does), -EINVAL if the bits fill no whole byte (QU4X2 and QU2X4 are rounded up) or d
 * is none. */
int tm_nbytes(tm_dtype d, int rank, const uint64_t *shape, uint64_t *nbytes);

/* A tensor that owns zeroed bytes. shape has rank entries (rank 0: a scalar; shape may then be NULL) and is
 * copied. NULL on failure, with errno EINVAL, EOVERFLOW or ENOMEM. Release with tm_tensor_free. */
tm_tensor *tm_tensor_new(tm_dtype dtype, int rank, const uint64_t *shape);

/* The same around bytes of the caller's, which must outlive the tensor and hold tm_nbytes bytes. data may be
 * NULL only where that is 0; else EINVAL. */
tm_tensor *tm_tensor_wrap(tm_dtype dtype, int rank, const uint64_t *shape, void *data);

/* Another reference to t (returned): each needs its own tm_tensor_free. NULL gives NULL. */
tm_tensor *tm_tensor_ref(tm_tensor *t);

/* Drops a reference; the last one releases the tensor. NULL is allowed. */
void tm_tensor_free(tm_tensor *t);

/* t must not be NULL. What is returned belongs to t. They cannot fail. */
tm_dtype tm_tensor_dtype(const tm_tensor *t);
int tm_tensor_rank(const tm_tensor *t);
const uint64_t *tm_tensor_shape(const tm_tensor *t); /* rank entries, outermost first; in elements */
uint64_t tm_tensor_nbytes(const tm_tensor *t);       /* bytes */

/* Row-major elements, tm_tensor_nbytes bytes; never NULL but for a tensor without bytes. Of a tensor from
 * fs_mmap this is the mapped file: read-only (a write is SIGSEGV), perhaps unaligned for the type, and a file
 * that shrinks under the mapping makes access SIGBUS, as with any mmap. */
void *tm_tensor_data(tm_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
