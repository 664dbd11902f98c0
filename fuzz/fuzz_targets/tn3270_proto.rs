#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entrepot_tn3270_proto::fuzz(bytes));
