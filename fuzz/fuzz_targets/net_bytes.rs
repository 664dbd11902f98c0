#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    entrepot_net::proxy::fuzz(bytes);
    entrepot_net::tls::fuzz(bytes);
});
