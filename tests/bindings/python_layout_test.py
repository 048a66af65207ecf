# SPDX-License-Identifier: Apache-2.0
"""The ctypes structs, constants and prototypes of the Python package equal those of <cep/cep.h>.

    python_layout_test.py TABLE
"""

import ctypes
import sys
import unittest

from layout_table import Field, read_table

import cep
from cep import _errors, _ffi

STRUCTS = {"cep_options": _ffi.Options, "cep_attrs": _ffi.Attrs, "cep_stats": _ffi.StatsStruct}
TYPES = {
    ctypes.c_int32: "i32",
    ctypes.c_uint32: "u32",
    ctypes.c_int64: "i64",
    ctypes.c_uint64: "u64",
    ctypes.c_double: "f64",
    ctypes.c_char_p: "ptr",
    ctypes.c_void_p: "ptr",
    _ffi.Span: "u64",
    None: "void",
}
# Calls whose result the package ignores: see _ffi.py.
RESULT_IGNORED = {"cep_phase", "cep_step"}
NOT_CALLED = {"cep_switch"}  # the package has regions and phases
table = read_table(sys.argv.pop(1))


def type_code(ctype):
    return TYPES.get(ctype, "ptr")


def prototypes():
    """All function objects of the loader module, by symbol name."""
    return {value.__name__: value for value in vars(_ffi).values() if isinstance(value, ctypes._CFuncPtr)}


class Layout(unittest.TestCase):
    def test_every_struct_has_the_size_of_the_header(self):
        self.assertEqual({name: ctypes.sizeof(struct) for name, struct in STRUCTS.items()}, table.sizes_bytes)

    def test_every_field_is_where_the_header_has_it(self):
        for name, struct in STRUCTS.items():
            found = {}
            for field, ctype in struct._fields_:
                place = getattr(struct, field)
                found[field] = Field(place.offset, place.size, type_code(ctype))
            self.assertEqual(found, table.fields[name], name)

    def test_codes_and_choices_are_those_of_the_header(self):
        found = {f"CEP_{name}": value for name, value in vars(_errors).items() if isinstance(value, int)}
        found |= {f"CEP_KIND_{name.upper()}": value for name, value in _ffi.KINDS.items()}
        found |= {f"CEP_LAYOUT_{name.upper()}": value for name, value in _ffi.LAYOUTS.items()}
        found |= {f"CEP_BACKEND_{name.upper()}": value for name, value in _ffi.BACKENDS.items()}
        families = ("CEP_E", "CEP_OK", "CEP_KIND_", "CEP_LAYOUT_", "CEP_BACKEND_")
        shared = [name for name in table.constants if name.startswith(families)]
        self.assertEqual(found, {name: table.constants[name] for name in shared})

    def test_special_values_are_those_of_the_header(self):
        self.assertEqual(ctypes.c_int64(cep._attributes.stream_address(cep.HOST)).value, table.constants["CEP_HOST"])

    def test_required_version_is_that_of_the_header(self):
        self.assertEqual(_ffi.REQUIRED_VERSION, table.version[:2])

    def test_every_function_has_its_result_and_arguments(self):
        found = prototypes()
        self.assertEqual(set(found), set(table.functions) - NOT_CALLED)
        for name, function in found.items():
            result, *arguments = table.functions[name]
            if name not in RESULT_IGNORED:
                self.assertEqual(type_code(function.restype), result, name)
            if function.argtypes is not None:
                self.assertEqual([type_code(argument) for argument in function.argtypes], arguments, name)


if __name__ == "__main__":
    unittest.main()
