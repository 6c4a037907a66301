// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "datasets/hdf5/hdf5_lib.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low bytes of a number come first");

/* A float type as H5Tget_fields describes it; the hidden leading bit counts as part of the mantissa. */
struct float_form {
    size_t sign_at, exponent_at, exponent, mantissa_at, mantissa, bias;
    H5T_norm_t norm;
    bool known;
};

/* Returns true for exactly this 2-byte float, without padding. */
static bool is_half(hid_t t, const struct float_form *f, size_t exponent, size_t mantissa, size_t bias)
{
    return H5Tget_size(t) == 2 && H5Tget_precision(t) == 16 && H5Tget_offset(t) == 0 && f->sign_at == 15 &&
           f->exponent_at == mantissa && f->exponent == exponent && f->mantissa_at == 0 && f->mantissa == mantissa &&
           f->bias == bias && f->norm == H5T_NORM_IMPLIED;
}

/* Returns true if an IEEE format holds every value: `digits` bits after the leading one, exponents of normal numbers
   from least to most. */
static bool holds(const struct float_form *f, size_t digits, int64_t least, int64_t most)
{
    const size_t behind = f->mantissa - (f->norm == H5T_NORM_IMPLIED || f->mantissa == 0 ? 0 : 1);
    const int64_t top = ((int64_t)1 << f->exponent) - 2, bias = (int64_t)f->bias;
    return f->bias <= (size_t)1 << 32 && behind <= digits && top - bias <= most &&
           1 - bias - (int64_t)behind >= least - (int64_t)digits;
}

hid_t qc_h5_make_float16(size_t exponent, size_t mantissa, size_t bias)
{
    hid_t t = H5Tcopy(H5T_NATIVE_FLOAT);
    H5Tset_fields(t, 15, mantissa, exponent, 0, mantissa);
    H5Tset_size(t, 2);
    H5Tset_ebias(t, bias);
    return t;
}

static bool is_bool(hid_t t)
{
    char *a = NULL, *b = NULL;
    signed char no = -1, yes = -1;
    bool r = H5Tget_size(t) == 1 && H5Tget_nmembers(t) == 2 && (a = H5Tget_member_name(t, 0)) &&
             (b = H5Tget_member_name(t, 1)) && strcmp(a, "FALSE") == 0 && strcmp(b, "TRUE") == 0 &&
             H5Tget_member_value(t, 0, &no) >= 0 && H5Tget_member_value(t, 1, &yes) >= 0 && no == 0 && yes == 1;
    H5free_memory(a);
    H5free_memory(b);
    return r;
}

/* The smallest of our integer types that holds the type's bytes, as in h5py. If bits are fewer or the size is odd, we
   extract the bits: between types of equal size HDF5 at most swaps bytes and leaves padding in the number. */
static void integer_element(struct qc_h5_element *e, hid_t t)
{
    static const enum qc_dtype table[2][4] = {{QC_U8, QC_U16, QC_U32, QC_U64}, {QC_I8, QC_I16, QC_I32, QC_I64}};
    const hid_t memory[2][4] = {{H5T_NATIVE_UINT8, H5T_NATIVE_UINT16, H5T_NATIVE_UINT32, H5T_NATIVE_UINT64},
                                {H5T_NATIVE_INT8, H5T_NATIVE_INT16, H5T_NATIVE_INT32, H5T_NATIVE_INT64}};
    const size_t size = H5Tget_size(t), bits = H5Tget_precision(t);
    const int offset = H5Tget_offset(t);
    const H5T_order_t order = H5Tget_order(t);
    const int width = size <= 1 ? 0 : size <= 2 ? 1 : size <= 4 ? 2 : 3, sign = H5Tget_sign(t) == H5T_SGN_2;
    e->type = bits > 64 ? "integer of more than 64 bits" : "integer of an odd form";
    if (size == 0 || size > QC_H5_INTEGER_MAX || bits == 0 || bits > 64 || offset < 0 ||
        (size_t)offset > 8 * size - bits || bits > 8 * size || (order != H5T_ORDER_LE && order != H5T_ORDER_BE))
        return;
    e->dtype = table[sign][width];
    e->memory = memory[sign][width];
    if (bits == 8 * size && qc_dtype_size(e->dtype) == size) return;
    e->way = QC_H5_PACKED;
    e->bits = (struct qc_h5_bits){
        .size = size, .offset = (size_t)offset, .count = bits, .big = order == H5T_ORDER_BE, .is_signed = sign};
}

static void float_element(struct qc_h5_element *e, hid_t t)
{
    struct float_form f = {.norm = H5Tget_norm(t), .bias = H5Tget_ebias(t)};
    f.known = H5Tget_fields(t, &f.sign_at, &f.exponent_at, &f.exponent, &f.mantissa_at, &f.mantissa) >= 0 &&
              f.norm != H5T_NORM_ERROR && f.exponent > 0 && f.exponent <= 32;
    const H5T_order_t order = H5Tget_order(t);
    e->type = "float of an odd form";
    if (!f.known || (order != H5T_ORDER_LE && order != H5T_ORDER_BE && order != H5T_ORDER_VAX)) return;
    if (is_half(t, &f, 5, 10, 15)) {
        e->dtype = QC_F16;
    } else if (is_half(t, &f, 8, 7, 127)) {
        e->dtype = QC_BF16;
    } else if (holds(&f, 23, -126, 127)) {
        e->dtype = QC_F32;
        e->memory = H5T_NATIVE_FLOAT;
    } else if (holds(&f, 52, -1022, 1023)) {
        e->dtype = QC_F64;
        e->memory = H5T_NATIVE_DOUBLE;
    } else if (f.mantissa <= 64 && H5Tget_size(t) <= sizeof(long double)) {
        e->dtype = QC_F32;
        e->memory = H5T_NATIVE_LDOUBLE;
        e->way = QC_H5_WIDE;
    } else {
        e->type = "float of more than 80 bits";
    }
}

void qc_h5_element_of(struct qc_h5_element *out, hid_t t)
{
    const H5T_class_t class = H5Tget_class(t);
    struct qc_h5_element e = {.dtype = QC_NONE, .memory = -1, .type = "unknown"};
    if (class == H5T_INTEGER) {
        integer_element(&e, t);
    } else if (class == H5T_FLOAT) {
        float_element(&e, t);
    } else if (class == H5T_ENUM) {
        QC_H5_OWN base = H5Tget_super(t);
        integer_element(&e, base); /* values without a member name are numbers too */
        if (e.dtype == QC_NONE)
            e.type = "enum";
        else if (is_bool(t))
            e.dtype = QC_BOOL;
    } else {
        e.type = class == H5T_STRING      ? "string"
                 : class == H5T_COMPOUND  ? "compound"
                 : class == H5T_VLEN      ? "variable length"
                 : class == H5T_ARRAY     ? "array"
                 : class == H5T_REFERENCE ? "reference"
                 : class == H5T_OPAQUE    ? "opaque"
                 : class == H5T_BITFIELD  ? "bitfield"
                                          : "unknown";
    }
    if (e.dtype != QC_NONE) e.type = e.way == QC_H5_WIDE ? "long double" : qc_dtype_long_name(e.dtype);
    *out = e;
}

hid_t qc_h5_memory_type(const struct qc_h5_element *e, hid_t t)
{
    if (e->way == QC_H5_PACKED) return H5Tcopy(t);
    if (e->dtype == QC_F16) return qc_h5_make_float16(5, 10, 15);
    if (e->dtype == QC_BF16) return qc_h5_make_float16(8, 7, 127);
    return e->dtype == QC_NONE ? -1 : H5Tcopy(e->memory);
}

bool qc_h5_stored_so(const struct qc_h5_element *e, hid_t t, hid_t memory)
{
    if (e->way != QC_H5_PLAIN) return false;
    QC_H5_OWN plain = H5Tget_class(t) == H5T_ENUM ? H5Tget_super(t) : H5Tcopy(t);
    return plain >= 0 && H5Tequal(plain, memory) > 0;
}

void qc_h5_unpack(void *out, const void *in, size_t count, size_t element, const struct qc_h5_bits *b)
{
    const unsigned char *p = in;
    char *to = out;
    const uint64_t mask = UINT64_MAX >> (64 - b->count), sign = b->is_signed ? UINT64_C(1) << (b->count - 1) : 0;
    const size_t first = b->offset / 8, last = (b->offset + b->count - 1) / 8,
                 shift = b->offset % 8; /* bytes, from the least significant, that hold the number */
    for (size_t i = 0; i < count; i++, p += b->size, to += element) {
        uint64_t low = 0, high = 0; /* 64 bits may span 9 bytes */
        for (size_t k = first; k <= last; k++) {
            const uint64_t byte = p[b->big ? b->size - 1 - k : k];
            if (k - first < 8)
                low |= byte << (8 * (k - first));
            else
                high = byte;
        }
        uint64_t v = (low >> shift | (shift ? high << (64 - shift) : 0)) & mask;
        v = (v ^ sign) - sign;
        memcpy(to, &v, element);
    }
}
