// SPDX-License-Identifier: Apache-2.0
//! Compares the declarations with the layout table that a C program printed from `<cep/cep.h>`. CEP_LAYOUT_TABLE is the
//! path of the table.

use std::collections::BTreeSet;
use std::mem::{size_of, MaybeUninit};
use std::ptr::addr_of;

use cep_sys::*;

fn lines_of(what: &str) -> BTreeSet<String> {
    let path = std::env::var("CEP_LAYOUT_TABLE").expect("CEP_LAYOUT_TABLE");
    let table = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let lines: BTreeSet<String> = table.lines().filter(|line| line.starts_with(what)).map(String::from).collect();
    assert!(!lines.is_empty(), "{path}: no {what}");
    lines
}

/// The table's name of a type.
trait Code {
    const CODE: &'static str;
}

macro_rules! code {
    ($($type:ty => $code:literal),*) => { $(impl Code for $type { const CODE: &'static str = $code; })* };
}
code!(i32 => "i32", u32 => "u32", i64 => "i64", u64 => "u64", f64 => "f64", () => "void");

impl<T> Code for *const T {
    const CODE: &'static str = "ptr";
}
impl<T> Code for *mut T {
    const CODE: &'static str = "ptr";
}

/// Size and code of a pointer's target type.
fn pointee<T: Code>(_: *const T) -> (usize, &'static str) {
    (size_of::<T>(), T::CODE)
}

trait Signature {
    fn codes(&self) -> Vec<&'static str>;
}

macro_rules! signature {
    ($($argument:ident),*) => {
        impl<Output: Code, $($argument: Code),*> Signature for unsafe extern "C" fn($($argument),*) -> Output {
            fn codes(&self) -> Vec<&'static str> {
                vec![Output::CODE, $($argument::CODE),*]
            }
        }
    };
}
signature!();
signature!(A);
signature!(A, B);
signature!(A, B, C);
signature!(A, B, C, D);

macro_rules! fields {
    ($type:ident: $($field:ident),*) => {{
        let place = MaybeUninit::<$type>::uninit();
        let start = place.as_ptr();
        let mut lines = vec![format!("struct {} {}", stringify!($type), size_of::<$type>())];
        $(
            // SAFETY: the address of a field within the struct; nothing is read.
            let field = unsafe { addr_of!((*start).$field) };
            let (size, code) = pointee(field);
            let offset = field as usize - start as usize;
            lines.push(format!("field {} {} {offset} {size} {code}", stringify!($type), stringify!($field)));
        )*
        lines
    }};
}

#[test]
#[ignore = "needs CEP_LAYOUT_TABLE"]
fn structs_are_laid_out_as_in_c() {
    let mut found = BTreeSet::new();
    found.extend(
        fields!(cep_options: struct_size, enable, directory, rank, world_size, local_rank, layout, start_step,
        end_step, record_every_n_steps, flush_every_n_steps, ranks, ranks_count, max_file_bytes, ring_capacity,
        pool_limit, backend, reserved, run_id, meta, storage, max_overhead_percent, capture_range),
    );
    found.extend(fields!(cep_attrs: struct_size, flags, bytes, flops, group, coll, error, meta));
    found.extend(
        fields!(cep_stats: struct_size, threads, recorded, written, dropped_ring, dropped_slots, dropped_pool,
        dropped_file, dropped_io, dropped_meta, capture_skipped, cuda_errors, abandoned, open_spans, bytes_written,
        self_ns, pending, trainer_ns),
    );
    let expected: BTreeSet<String> = &lines_of("struct ") | &lines_of("field ");
    assert_eq!(found, expected);
}

macro_rules! constants {
    ($($name:ident),*) => { [$(format!("constant {} {}", stringify!($name), $name as i64)),*] };
}

#[test]
#[ignore = "needs CEP_LAYOUT_TABLE"]
fn constants_have_the_values_of_c() {
    let found = BTreeSet::from(constants!(
        CEP_VERSION_MAJOR,
        CEP_VERSION_MINOR,
        CEP_VERSION_PATCH,
        CEP_SPAN_NONE,
        CEP_SPAN_INNERMOST,
        CEP_HOST,
        CEP_OK,
        CEP_EINVAL,
        CEP_EOPTION,
        CEP_EJSON,
        CEP_EIO,
        CEP_ENOMEM,
        CEP_ETIMEDOUT,
        CEP_ELIMIT,
        CEP_EINTERNAL,
        CEP_KIND_AUTO,
        CEP_KIND_STEP,
        CEP_KIND_COMPUTE,
        CEP_KIND_COMM,
        CEP_KIND_DATA,
        CEP_KIND_MEMORY,
        CEP_KIND_HOST,
        CEP_KIND_OTHER,
        CEP_FIND_IT,
        CEP_NO_END_STEP,
        CEP_LAYOUT_FULL,
        CEP_LAYOUT_FLAT,
        CEP_LAYOUT_SPANS,
        CEP_BACKEND_AUTO,
        CEP_BACKEND_HOST,
        CEP_ATTRS_ASYNC
    ));
    assert_eq!(found, lines_of("constant "));
}

macro_rules! functions {
    ($($name:ident ($($argument:tt)*)),* $(,)?) => {
        [$({
            let codes = ($name as unsafe extern "C" fn($($argument)*) -> _).codes();
            format!("function {} {}", stringify!($name), codes.join(" "))
        }),*]
    };
}

#[test]
#[ignore = "needs CEP_LAYOUT_TABLE"]
fn functions_have_the_argument_and_result_types_of_c() {
    let found = BTreeSet::from(functions!(
        cep_version(),
        cep_strerror(_),
        cep_last_error(),
        cep_options_init(_, _),
        cep_options_load_json(_, _),
        cep_options_load_env(_),
        cep_options_clear(_),
        cep_open(_, _),
        cep_close(_, _),
        cep_flush(_, _),
        cep_enabled(_),
        cep_rank(_),
        cep_set_meta(_, _),
        cep_get_stats(_, _),
        cep_step(_, _),
        cep_recording(_),
        cep_region_get(_, _, _),
        cep_begin(_, _),
        cep_begin_with(_, _, _),
        cep_end(_, _, _),
        cep_end_with(_, _, _, _),
        cep_switch(_, _, _),
        cep_phase(_, _, _),
        cep_record(_, _, _, _),
        cep_counter(_, _, _),
        cep_mark(_, _, _),
    ));
    assert_eq!(found, lines_of("function "));
}
