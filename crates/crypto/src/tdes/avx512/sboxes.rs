//! The S-boxes of DES as circuits, made by `generator.rs`: do not edit.

use super::{V, gate};

pub(in crate::tdes) const COMPLEMENTED: u32 = 0x00000000;

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn s1(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = gate::<0x52>(b5, b3, b4);
    let n1 = gate::<0x63>(b5, b3, n0);
    let n2 = gate::<0xca>(b0, n1, n0);
    let n3 = gate::<0x97>(b0, n1, n0);
    let n4 = gate::<0xb5>(n3, b4, b5);
    let n5 = gate::<0xca>(b2, n2, n4);
    let n6 = gate::<0x41>(b2, n0, b5);
    let n7 = gate::<0x39>(n6, n1, b0);
    let n8 = gate::<0xc6>(n1, b2, n3);
    let n9 = gate::<0x68>(n8, n4, b0);
    let n10 = gate::<0xca>(b4, n7, n9);
    let n11 = gate::<0xca>(b1, n10, n5);
    let n12 = gate::<0xd5>(n4, n8, n9);
    let n13 = gate::<0x60>(n12, n10, b2);
    let n14 = gate::<0xba>(n13, n1, n9);
    let n15 = gate::<0xca>(b5, n14, n13);
    let n16 = gate::<0x24>(n8, b0, b5);
    let n17 = gate::<0x39>(n16, n15, n2);
    let n18 = gate::<0xca>(b1, n17, n15);
    let n19 = gate::<0x83>(b2, n9, n8);
    let n20 = gate::<0x78>(n2, n7, n17);
    let n21 = gate::<0xca>(b4, n19, n20);
    let n22 = gate::<0xd3>(n17, n0, n10);
    let n23 = gate::<0x74>(n22, b4, n21);
    let n24 = gate::<0xca>(b3, n23, n22);
    let n25 = gate::<0xca>(b1, n21, n24);
    let n26 = gate::<0x8e>(b5, n25, n20);
    let n27 = gate::<0x96>(n26, n11, n17);
    let n28 = gate::<0xe0>(n25, n5, n0);
    let n29 = gate::<0x96>(n28, n21, n27);
    let n30 = gate::<0xca>(b0, n29, n27);
    [n25, n11, n30, n18]
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn s2(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = gate::<0x19>(b1, b4, b5);
    let n1 = gate::<0x96>(b5, b1, b4);
    let n2 = gate::<0xca>(b0, n0, n1);
    let n3 = gate::<0x68>(n0, b5, n2);
    let n4 = gate::<0x5a>(n3, b0, b1);
    let n5 = gate::<0xca>(b3, n4, n2);
    let n6 = gate::<0x63>(b1, n5, b5);
    let n7 = gate::<0x96>(n5, n4, n1);
    let n8 = gate::<0xca>(b0, n7, n6);
    let n9 = gate::<0xca>(b2, n5, n8);
    let n10 = gate::<0xb1>(n2, b2, b5);
    let n11 = gate::<0x12>(n10, b4, b3);
    let n12 = gate::<0xa6>(n9, n4, n6);
    let n13 = gate::<0xd2>(n12, b1, n11);
    let n14 = gate::<0xca>(b0, n13, n11);
    let n15 = gate::<0x63>(b3, b0, n3);
    let n16 = gate::<0x78>(n15, b5, b2);
    let n17 = gate::<0xe1>(b2, n1, b0);
    let n18 = gate::<0xca>(b1, n17, n16);
    let n19 = gate::<0xca>(b4, n18, n14);
    let n20 = gate::<0x94>(n13, n7, b4);
    let n21 = gate::<0x3e>(n20, n17, b2);
    let n22 = gate::<0x3a>(n21, n16, n5);
    let n23 = gate::<0x16>(n22, n19, n1);
    let n24 = gate::<0xca>(b1, n23, n21);
    let n25 = gate::<0xc8>(n8, n18, n1);
    let n26 = gate::<0x96>(n25, n15, n2);
    let n27 = gate::<0x76>(n25, n16, n1);
    let n28 = gate::<0x78>(n27, b2, b1);
    let n29 = gate::<0xca>(b3, n26, n28);
    [n9, n29, n24, n19]
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn s3(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = gate::<0xab>(b5, b3, b2);
    let n1 = gate::<0x96>(b5, b3, b2);
    let n2 = gate::<0xca>(b4, n1, n0);
    let n3 = gate::<0x0d>(b3, b5, n2);
    let n4 = gate::<0x96>(n3, b4, b2);
    let n5 = gate::<0xca>(b1, n4, n2);
    let n6 = gate::<0x14>(n1, n4, b1);
    let n7 = gate::<0x68>(n6, n0, n3);
    let n8 = gate::<0x6b>(b4, n1, b3);
    let n9 = gate::<0xca>(b1, n8, n7);
    let n10 = gate::<0xca>(b0, n9, n5);
    let n11 = gate::<0xc8>(n9, n2, b4);
    let n12 = gate::<0x9e>(n11, b1, n3);
    let n13 = gate::<0xc5>(n2, n5, b4);
    let n14 = gate::<0x12>(n13, n6, b1);
    let n15 = gate::<0xca>(b2, n12, n14);
    let n16 = gate::<0xb8>(b2, b4, b3);
    let n17 = gate::<0x96>(n16, n1, b1);
    let n18 = gate::<0xca>(b0, n15, n17);
    let n19 = gate::<0x12>(n17, n6, n11);
    let n20 = gate::<0x96>(n19, b0, n4);
    let n21 = gate::<0x6a>(n10, n17, n20);
    let n22 = gate::<0x94>(n21, n1, n6);
    let n23 = gate::<0xca>(b2, n20, n22);
    let n24 = gate::<0x1a>(n19, n18, n9);
    let n25 = gate::<0x56>(n24, n6, b0);
    let n26 = gate::<0xb6>(n8, n17, b0);
    let n27 = gate::<0xb0>(n26, n23, n15);
    let n28 = gate::<0xca>(b3, n25, n27);
    [n28, n23, n10, n18]
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn s4(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = gate::<0x36>(b3, b1, b4);
    let n1 = gate::<0x1e>(b4, b3, n0);
    let n2 = gate::<0xca>(b2, n0, n1);
    let n3 = gate::<0xe5>(b4, n0, b3);
    let n4 = gate::<0xb4>(n3, b2, b1);
    let n5 = gate::<0xca>(b0, n2, n4);
    let n6 = gate::<0xda>(b1, b2, n4);
    let n7 = gate::<0x96>(n6, b3, n2);
    let n8 = gate::<0x9e>(n7, b4, n2);
    let n9 = gate::<0xca>(b0, n7, n8);
    let n10 = gate::<0xca>(b5, n9, n5);
    let n11 = gate::<0x92>(b3, n4, b4);
    let n12 = gate::<0xd2>(n11, b2, n6);
    let n13 = gate::<0x2d>(n11, n0, n4);
    let n14 = gate::<0xca>(b0, n13, n12);
    let n15 = gate::<0xc7>(n12, b4, n9);
    let n16 = gate::<0x92>(n15, b0, n6);
    let n17 = gate::<0xca>(b5, n16, n14);
    let n18 = gate::<0x8d>(n16, n14, b5);
    let n19 = gate::<0x72>(n9, n5, b5);
    [n18, n17, n19, n10]
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn s5(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = gate::<0x61>(b2, b4, b0);
    let n1 = gate::<0x96>(n0, b1, b5);
    let n2 = gate::<0x20>(n1, b0, b2);
    let n3 = gate::<0x39>(n2, n0, b5);
    let n4 = gate::<0xd4>(b5, b2, n1);
    let n5 = gate::<0xb4>(n4, n3, b4);
    let n6 = gate::<0xca>(b0, n5, n3);
    let n7 = gate::<0xca>(b3, n1, n6);
    let n8 = gate::<0x34>(b3, n6, b0);
    let n9 = gate::<0x1a>(n8, n0, n1);
    let n10 = gate::<0xb9>(n2, n8, b1);
    let n11 = gate::<0xca>(b5, n9, n10);
    let n12 = gate::<0x5e>(b0, b3, b4);
    let n13 = gate::<0xbd>(n12, n4, n8);
    let n14 = gate::<0x41>(n7, n6, n10);
    let n15 = gate::<0xca>(b5, n13, n14);
    let n16 = gate::<0xca>(b2, n11, n15);
    let n17 = gate::<0x56>(b4, n10, b2);
    let n18 = gate::<0x72>(n17, b0, n4);
    let n19 = gate::<0xc2>(n1, b1, b2);
    let n20 = gate::<0xca>(b3, n18, n19);
    let n21 = gate::<0x2c>(b2, b4, n9);
    let n22 = gate::<0x96>(n21, b0, n5);
    let n23 = gate::<0x19>(n17, n3, n12);
    let n24 = gate::<0xca>(b3, n23, n22);
    let n25 = gate::<0xca>(b5, n24, n20);
    let n26 = gate::<0x63>(n5, n1, n17);
    let n27 = gate::<0x96>(n26, n12, b3);
    let n28 = gate::<0x65>(b2, n14, n12);
    let n29 = gate::<0xd2>(n28, n24, b1);
    let n30 = gate::<0xca>(b5, n27, n29);
    [n16, n7, n30, n25]
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn s6(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = gate::<0x69>(b3, b0, b4);
    let n1 = gate::<0x2d>(b1, n0, b4);
    let n2 = gate::<0xca>(b2, n0, n1);
    let n3 = gate::<0x36>(b4, n0, b2);
    let n4 = gate::<0x62>(b2, n3, b3);
    let n5 = gate::<0xca>(b1, n4, n3);
    let n6 = gate::<0x13>(n0, n2, b3);
    let n7 = gate::<0x7c>(n6, n4, b1);
    let n8 = gate::<0xca>(b0, n7, n5);
    let n9 = gate::<0xca>(b5, n8, n2);
    let n10 = gate::<0xce>(b5, n6, b2);
    let n11 = gate::<0x68>(n9, b2, n0);
    let n12 = gate::<0xca>(b1, n10, n11);
    let n13 = gate::<0x94>(n1, n5, n4);
    let n14 = gate::<0xca>(b3, n12, n13);
    let n15 = gate::<0x3e>(n3, b5, n6);
    let n16 = gate::<0x96>(n15, n1, n0);
    let n17 = gate::<0xca>(b0, n16, n14);
    let n18 = gate::<0xe8>(n2, b2, b3);
    let n19 = gate::<0xac>(n18, n7, n17);
    let n20 = gate::<0x9e>(b2, n9, n19);
    let n21 = gate::<0x60>(n20, n14, n16);
    let n22 = gate::<0xca>(b5, n19, n21);
    let n23 = gate::<0x5b>(b5, n16, n0);
    let n24 = gate::<0x7c>(n23, n19, n10);
    let n25 = gate::<0xca>(b4, n22, n24);
    let n26 = gate::<0x87>(n23, n19, n17);
    let n27 = gate::<0xda>(n0, n22, b1);
    let n28 = gate::<0xca>(b0, n27, n26);
    let n29 = gate::<0x67>(n1, n15, b1);
    let n30 = gate::<0x78>(n29, n25, b4);
    let n31 = gate::<0xca>(b2, n30, n28);
    [n9, n25, n31, n17]
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn s7(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = gate::<0x60>(b1, b5, b2);
    let n1 = gate::<0x16>(b1, b2, b5);
    let n2 = gate::<0xca>(b0, n1, n0);
    let n3 = gate::<0x09>(n0, b2, b0);
    let n4 = gate::<0xf9>(n3, b5, b1);
    let n5 = gate::<0xca>(b4, n4, n2);
    let n6 = gate::<0x59>(n1, b0, b4);
    let n7 = gate::<0x92>(n6, n0, b1);
    let n8 = gate::<0xca>(b3, n5, n7);
    let n9 = gate::<0xc3>(n1, n6, n5);
    let n10 = gate::<0x7c>(n9, b0, b1);
    let n11 = gate::<0x71>(n1, n7, n2);
    let n12 = gate::<0xca>(b2, n11, n10);
    let n13 = gate::<0x90>(n1, n11, b5);
    let n14 = gate::<0xc4>(n13, n10, b0);
    let n15 = gate::<0x56>(n4, n9, n12);
    let n16 = gate::<0xca>(b1, n15, n14);
    let n17 = gate::<0xca>(b3, n12, n16);
    let n18 = gate::<0xac>(b5, n14, b1);
    let n19 = gate::<0x6c>(n3, n1, n18);
    let n20 = gate::<0xca>(b0, n19, n18);
    let n21 = gate::<0x4e>(n18, n7, n2);
    let n22 = gate::<0xf4>(n3, n9, n7);
    let n23 = gate::<0xca>(b1, n21, n22);
    let n24 = gate::<0xca>(b3, n23, n20);
    let n25 = gate::<0x54>(n14, n0, b0);
    let n26 = gate::<0xb6>(n25, n15, n23);
    let n27 = gate::<0x1a>(b0, n4, n8);
    let n28 = gate::<0x96>(n27, b2, n12);
    let n29 = gate::<0xca>(b3, n28, n26);
    [n17, n8, n24, n29]
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
pub(super) fn s8(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = gate::<0xa6>(b4, b2, b3);
    let n1 = gate::<0x74>(b2, b4, b3);
    let n2 = gate::<0xca>(b1, n0, n1);
    let n3 = gate::<0xb6>(b2, n2, b3);
    let n4 = gate::<0x3d>(n3, b4, n0);
    let n5 = gate::<0xca>(b0, n2, n4);
    let n6 = gate::<0x27>(b1, b0, b4);
    let n7 = gate::<0x1a>(n6, n5, n4);
    let n8 = gate::<0x84>(n4, b0, n3);
    let n9 = gate::<0xd6>(n8, n6, b2);
    let n10 = gate::<0xca>(b3, n9, n7);
    let n11 = gate::<0xca>(b5, n10, n5);
    let n12 = gate::<0xa9>(n10, b1, b4);
    let n13 = gate::<0x96>(n12, n1, b5);
    let n14 = gate::<0xe4>(n0, n4, b5);
    let n15 = gate::<0xe8>(n1, n13, n4);
    let n16 = gate::<0xca>(b1, n15, n14);
    let n17 = gate::<0xca>(b0, n16, n13);
    let n18 = gate::<0x8e>(n9, n12, n2);
    let n19 = gate::<0x8d>(n18, n15, n8);
    let n20 = gate::<0xbc>(n19, b2, n7);
    let n21 = gate::<0xca>(b0, n20, n18);
    let n22 = gate::<0xb2>(n5, n16, n2);
    let n23 = gate::<0x78>(n22, b0, n12);
    let n24 = gate::<0xca>(b5, n21, n23);
    let n25 = gate::<0x09>(b1, n17, n24);
    let n26 = gate::<0x59>(n25, b5, n9);
    let n27 = gate::<0xe5>(b2, b4, n21);
    let n28 = gate::<0x39>(n27, n7, b5);
    let n29 = gate::<0xca>(b3, n26, n28);
    [n11, n17, n24, n29]
}
