#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entrepot_host::fuzz(bytes));
