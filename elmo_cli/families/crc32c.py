"""CRC-32C (Castagnoli), the checksum of TensorFlow's files, computed with NumPy.

A CRC is linear over GF(2): reading four more bytes multiplies the register by a matrix, after the
bytes were added to it. So a message is cut into rows of `_N_LANES` words, and the registers of all
lanes go from row to row at once. At the end, a tree of additions joins the lanes.

`google_crc32c` does the same in C and is used if it is installed.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78  # with its bits reversed, as the register has them
_ONES = 0xFFFFFFFF
_LOG_LANES = 14
_N_LANES = 1 << _LOG_LANES
_ROW_BYTES = 4 * _N_LANES
_CHUNK_BYTES = 1 << 20  # that the library in C reads at once
_MASK_DELTA = 0xA282EAD8

Words = NDArray[np.uint32]


def crc32c(data: memoryview) -> int:
    """The CRC-32C of bytes, given as a contiguous memoryview of bytes."""
    if find_spec("google_crc32c") is not None:
        return _crc_in_c(data)
    return _crc_in_numpy(data)


def masked(crc: int) -> int:
    """The form in which TensorFlow and LevelDB store a checksum."""
    rotated = (crc >> 15 | crc << 17) & _ONES
    return (rotated + _MASK_DELTA) & _ONES


def _crc_in_c(data: memoryview) -> int:
    import google_crc32c

    crc = 0
    for start in range(0, len(data), _CHUNK_BYTES):
        crc = google_crc32c.extend(crc, bytes(data[start : start + _CHUNK_BYTES]))
    return crc


def _crc_in_numpy(data: memoryview) -> int:
    n_first = len(data) % _ROW_BYTES
    first_row = bytes(_ROW_BYTES - n_first) + bytes(data[:n_first])  # zeros in front have no effect
    registers = np.frombuffer(first_row, "<u4").copy()  # (lane,)
    rows: Words = np.zeros(0, np.uint32)
    if len(data) > n_first:
        rows = np.frombuffer(data, "<u4", offset=n_first)
    to_next_row = _tables(_LOG_LANES)
    for row in rows.reshape(-1, _N_LANES):
        registers = _multiplied(registers, to_next_row) ^ row
    for level in reversed(range(_LOG_LANES)):  # the first half is 2**level words ahead
        first_half, second_half = np.split(registers, 2)
        registers = _multiplied(first_half, _tables(level)) ^ second_half
    (crc,) = _multiplied(registers, _tables(0))
    return int(crc) ^ _after_zeros(_ONES, len(data)) ^ _ONES


def _multiplied(registers: Words, tables: Words) -> Words:
    """Multiply each register by the matrix of `_tables`."""
    register_bytes = registers.astype("<u4", copy=False).view(np.uint8).reshape(-1, 4)
    product: Words = tables[0][register_bytes[:, 0]]
    for position in range(1, 4):
        product ^= tables[position][register_bytes[:, position]]
    return product


@cache
def _tables(level: int) -> Words:
    """The matrix that reads 2**level words of zeros, (byte of the register, value of the byte)."""
    columns = _columns(level + 2)  # a word has 2**2 bytes
    tables = np.zeros((4, 256), np.uint32)
    for bit, column in enumerate(columns):
        position, bit_of_byte = divmod(bit, 8)
        n_filled = 1 << bit_of_byte
        table = tables[position]
        table[n_filled : 2 * n_filled] = table[:n_filled] ^ np.uint32(column)
    return tables


@cache
def _columns(level: int) -> tuple[int, ...]:
    """The matrix that reads 2**level bytes of zeros, as the image of each bit of the register."""
    if level == 0:
        return tuple(_after_one_zero(1 << bit) for bit in range(32))
    half = _columns(level - 1)
    return tuple(_times_columns(column, half) for column in half)


def _after_one_zero(register: int) -> int:
    """The register after one byte of zeros."""
    for _ in range(8):
        is_odd = register & 1
        register >>= 1
        if is_odd:
            register ^= _POLYNOMIAL
    return register


def _times_columns(register: int, columns: tuple[int, ...]) -> int:
    product = 0
    for bit, column in enumerate(columns):
        if register >> bit & 1:
            product ^= column
    return product


def _after_zeros(register: int, n_bytes: int) -> int:
    """The register after any number of bytes of zeros."""
    level = 0
    while n_bytes >> level:
        if n_bytes >> level & 1:
            register = _times_columns(register, _columns(level))
        level += 1
    return register


def as_bytes(array: NDArray[Any]) -> memoryview:
    """The bytes of a contiguous array, without a copy."""
    content: memoryview = array.reshape(-1).view(np.uint8).data
    return content
