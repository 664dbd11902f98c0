#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entrepot_sftp_proto::exec::fuzz(bytes));
