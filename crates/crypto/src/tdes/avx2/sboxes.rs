//! The S-boxes of DES as circuits, made by `generator.rs`: do not edit.

use super::{V, and, and_not, or, xor};

pub(in crate::tdes) const COMPLEMENTED: u32 = 0x3ddb1b1b;

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn s1(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = and_not(b0, b1);
    let n1 = xor(n0, b5);
    let n2 = xor(b1, b5);
    let n3 = and_not(b3, n2);
    let n4 = xor(n1, n3);
    let n5 = and_not(b3, n1);
    let n6 = and_not(b4, n5);
    let n7 = xor(n4, n6);
    let n8 = and_not(n3, n0);
    let n9 = and_not(b1, b0);
    let n10 = xor(n8, n9);
    let n11 = and_not(b1, n2);
    let n12 = xor(n11, b3);
    let n13 = and_not(b0, n12);
    let n18 = xor(n7, or(b2, xor(n10, and(b4, xor(b3, n13)))));
    let n19 = and_not(b0, n7);
    let n20 = xor(n19, n12);
    let n21 = xor(n9, n4);
    let n23 = xor(n20, or(b3, n21));
    let n27 = xor(n23, and_not(b2, xor(or(n11, n8), b5)));
    let n28 = xor(n12, n2);
    let n31 = xor(n28, and(b5, and_not(n18, n20)));
    let n34 = and_not(b2, and_not(xor(n28, n5), n19));
    let n37 = xor(n27, or(b4, xor(n31, n34)));
    let n38 = xor(n23, n1);
    let n39 = and(n6, n21);
    let n40 = xor(n38, n39);
    let n44 = xor(n40, and(b2, or(and_not(b4, n13), n11)));
    let n45 = and(b0, n34);
    let n48 = xor(n45, and(b3, xor(n27, n3)));
    let n53 = and_not(xor(n48, and(b4, and(or(b2, n39), b0))), b1);
    let n54 = xor(n44, n53);
    let n56 = xor(xor(n18, n37), n54);
    let n59 = and_not(b1, and(or(n7, n54), b4));
    let n60 = xor(n56, n59);
    let n61 = and_not(n6, n40);
    let n65 = xor(n61, and_not(xor(and_not(n2, n59), n61), b2));
    let n67 = xor(n60, and_not(n65, b3));
    [n18, n67, n37, n54]
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn s2(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = or(b1, b3);
    let n1 = xor(n0, b0);
    let n3 = xor(n1, and(b2, b1));
    let n4 = and(b1, b3);
    let n5 = xor(n4, b2);
    let n6 = and_not(b5, n5);
    let n7 = xor(n3, n6);
    let n9 = and_not(xor(n4, n3), n1);
    let n13 = xor(n9, and(b5, xor(and_not(b3, b2), n9)));
    let n15 = xor(n7, and_not(b4, n13));
    let n16 = xor(n7, b5);
    let n17 = and(b5, n1);
    let n18 = and_not(n17, b0);
    let n19 = xor(n16, n18);
    let n20 = and(b5, n5);
    let n22 = xor(n19, and_not(b1, n20));
    let n23 = xor(n18, n5);
    let n26 = xor(n23, and(b0, xor(b2, n6)));
    let n27 = xor(n7, n20);
    let n29 = and_not(b1, and_not(n27, n17));
    let n30 = xor(n26, n29);
    let n32 = xor(n22, and_not(n30, b4));
    let n33 = xor(b5, n5);
    let n35 = xor(n33, or(b0, n29));
    let n36 = or(n27, n32);
    let n38 = xor(and_not(n32, b3), n6);
    let n40 = xor(n36, or(b1, n38));
    let n42 = xor(n35, and_not(b4, n40));
    let n44 = or(xor(n23, n19), n40);
    let n48 = xor(n44, and_not(b2, xor(and_not(n16, n20), n0)));
    let n50 = or(and(n5, n36), n38);
    let n54 = and_not(b4, xor(n50, or(b0, or(b5, n30))));
    let n55 = xor(n48, n54);
    [n42, n15, n55, n32]
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn s3(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = and_not(b3, b5);
    let n1 = and_not(b5, b3);
    let n3 = xor(n0, and_not(n1, b0));
    let n5 = and(and_not(b3, n3), b0);
    let n7 = xor(n3, and_not(b1, n5));
    let n8 = and_not(b1, n1);
    let n9 = and_not(b0, n8);
    let n10 = and_not(n9, b2);
    let n11 = xor(n7, n10);
    let n12 = xor(b5, b2);
    let n13 = and_not(n3, b0);
    let n14 = xor(n12, n13);
    let n18 = and(b4, xor(n14, and_not(and_not(n9, n14), b1)));
    let n19 = xor(n11, n18);
    let n21 = xor(and_not(n5, b4), n7);
    let n22 = xor(b4, n8);
    let n24 = and_not(b2, and_not(n22, n5));
    let n25 = xor(n21, n24);
    let n27 = xor(and_not(n3, n22), b0);
    let n28 = or(n25, n19);
    let n29 = xor(n27, n13);
    let n31 = or(b4, and_not(n29, n12));
    let n35 = and_not(xor(n27, and(b1, xor(n28, n31))), b5);
    let n36 = xor(n25, n35);
    let n38 = xor(or(n10, n14), b4);
    let n42 = xor(n38, and(b3, xor(or(n24, n31), b1)));
    let n43 = or(n36, n1);
    let n45 = xor(and_not(n36, n31), n24);
    let n49 = xor(n42, and_not(xor(n43, and_not(b1, n45)), b0));
    let n50 = xor(n38, n7);
    let n54 = xor(n50, and_not(and_not(xor(n24, n28), b3), b0));
    let n56 = xor(or(n29, n45), n1);
    let n60 = xor(n56, and(b2, or(and_not(n27, n38), b5)));
    let n62 = xor(n54, or(b1, n60));
    [n62, n36, n49, n19]
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn s4(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = xor(b2, b3);
    let n1 = xor(n0, b0);
    let n2 = and_not(n1, n0);
    let n3 = or(n2, b3);
    let n4 = and(b4, n3);
    let n5 = xor(n1, n4);
    let n7 = xor(and_not(n3, n5), b4);
    let n10 = xor(n7, and_not(b2, and_not(n7, n4)));
    let n11 = and_not(n10, b1);
    let n12 = xor(n5, n11);
    let n13 = and_not(b3, n7);
    let n15 = or(b1, and_not(n7, b2));
    let n16 = xor(n13, n15);
    let n17 = and_not(n3, n16);
    let n20 = xor(n17, or(b2, or(n17, n11)));
    let n21 = and_not(n20, b4);
    let n22 = xor(n16, n21);
    let n24 = xor(n12, and_not(n22, b5));
    let n25 = and_not(n0, b4);
    let n26 = xor(n25, n10);
    let n27 = or(n2, b2);
    let n28 = and_not(n20, b0);
    let n31 = and_not(xor(n27, and(b4, n28)), b1);
    let n32 = xor(n26, n31);
    let n33 = or(n21, n15);
    let n37 = xor(n33, or(b3, or(and_not(n25, n15), n28)));
    let n41 = xor(n37, and_not(or(xor(n13, n12), n31), b2));
    let n43 = xor(n32, and(b5, n41));
    let n45 = xor(xor(n22, n24), b5);
    let n47 = xor(xor(b5, n41), n43);
    [n45, n24, n47, n43]
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn s5(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = and_not(b3, b1);
    let n1 = or(b0, n0);
    let n2 = xor(b3, n1);
    let n3 = xor(n2, b5);
    let n4 = xor(b3, b1);
    let n5 = xor(n0, b5);
    let n6 = and_not(b0, n5);
    let n7 = xor(n4, n6);
    let n8 = and_not(n7, b2);
    let n9 = xor(n3, n8);
    let n11 = and_not(or(n6, n8), n3);
    let n13 = xor(b2, or(b5, n11));
    let n14 = and_not(n1, n11);
    let n15 = xor(n14, b0);
    let n18 = xor(n15, and_not(b2, and_not(n13, n15)));
    let n21 = and_not(xor(n13, and_not(n18, b1)), b4);
    let n22 = xor(n9, n21);
    let n23 = xor(n5, b0);
    let n24 = xor(n23, b2);
    let n27 = xor(n24, and_not(b4, and_not(b0, b2)));
    let n29 = xor(and(n6, b4), n15);
    let n30 = xor(n7, b4);
    let n31 = and_not(n3, n30);
    let n33 = xor(n31, and(b5, b0));
    let n35 = xor(n29, and(b2, n33));
    let n37 = xor(n27, and_not(n35, b3));
    let n38 = and_not(n9, n21);
    let n39 = xor(n38, n30);
    let n43 = xor(n39, and(b3, xor(or(b4, n5), n35)));
    let n45 = xor(or(n18, n24), n30);
    let n49 = xor(n45, or(b1, or(and_not(b4, n14), n2)));
    let n51 = xor(n43, and_not(n49, b2));
    let n53 = xor(or(n9, n49), n33);
    let n57 = and_not(b2, xor(n23, or(b5, or(b3, n7))));
    let n58 = xor(n53, n57);
    let n60 = or(and(n38, n24), n49);
    let n63 = xor(n60, and_not(b5, and_not(n30, n58)));
    let n65 = xor(n58, and_not(b4, n63));
    [n51, n37, n65, n22]
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn s6(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = xor(b0, b5);
    let n1 = xor(n0, b3);
    let n4 = and(b4, xor(and(b3, n1), b5));
    let n5 = xor(n1, n4);
    let n8 = or(b2, and(xor(b4, b5), b0));
    let n9 = xor(n5, n8);
    let n10 = xor(n1, n9);
    let n11 = xor(n10, b2);
    let n13 = xor(n11, and(b5, n5));
    let n15 = xor(or(b0, b2), n13);
    let n17 = xor(n13, and_not(n15, b4));
    let n19 = xor(n9, and_not(n17, b1));
    let n20 = and_not(b5, n19);
    let n21 = or(b3, n20);
    let n22 = xor(n17, n21);
    let n23 = or(n0, n15);
    let n25 = xor(n23, and_not(b5, b1));
    let n27 = xor(n22, and_not(n25, b0));
    let n28 = xor(n1, b1);
    let n29 = xor(n28, n27);
    let n32 = xor(n29, or(b4, or(n20, n9)));
    let n34 = xor(n27, and_not(n32, b2));
    let n35 = and_not(b2, b4);
    let n36 = xor(n35, n28);
    let n37 = and(n25, n10);
    let n40 = xor(n36, or(b3, xor(n37, n34)));
    let n42 = xor(or(n37, n1), n22);
    let n46 = xor(n42, and_not(b2, and(or(n20, n27), n1)));
    let n47 = and_not(n46, b0);
    let n48 = xor(n40, n47);
    let n49 = xor(n32, n47);
    let n50 = xor(n49, n8);
    let n52 = xor(and(n49, n10), n36);
    let n54 = xor(n50, and_not(b5, n52));
    let n56 = and(or(n40, n32), n4);
    let n59 = and_not(xor(and_not(n35, n52), n21), b4);
    let n62 = xor(n54, and(b1, xor(n56, n59)));
    [n34, n62, n19, n48]
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn s7(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = and_not(b5, b2);
    let n1 = xor(b5, b2);
    let n3 = xor(n0, and_not(b0, n1));
    let n4 = and_not(b0, b5);
    let n6 = xor(n3, and_not(b4, n4));
    let n7 = xor(b4, b0);
    let n8 = and_not(n1, n7);
    let n10 = and_not(and_not(n3, n7), b2);
    let n11 = xor(n8, n10);
    let n13 = xor(n6, and_not(b3, n11));
    let n15 = xor(and_not(n13, b4), n10);
    let n17 = and(b3, or(b4, n7));
    let n18 = xor(n15, n17);
    let n19 = and_not(b4, n13);
    let n22 = xor(n18, and_not(and_not(b2, n19), b5));
    let n24 = xor(n13, and_not(n22, b1));
    let n25 = xor(n7, n1);
    let n27 = xor(and_not(n17, n11), n4);
    let n30 = xor(n25, and(b3, or(b2, n27)));
    let n31 = and_not(n18, n19);
    let n34 = or(b2, xor(and_not(n15, n24), n31));
    let n35 = xor(n31, n34);
    let n37 = xor(n30, and_not(b1, n35));
    let n38 = and_not(n25, n27);
    let n39 = or(n25, n24);
    let n41 = xor(n4, and(b3, n39));
    let n43 = xor(n38, and(b4, n41));
    let n45 = xor(and_not(n34, n41), n18);
    let n49 = xor(n45, and_not(b5, and(xor(n24, n30), n3)));
    let n51 = xor(n43, or(b1, n49));
    let n53 = and_not(n30, and(n6, b5));
    let n57 = xor(n53, and_not(and_not(n22, and(n39, b2)), b4));
    let n61 = xor(n57, or(b1, and(or(n35, n6), n17)));
    [n24, n51, n61, n37]
}

#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn s8(b: [V; 6]) -> [V; 4] {
    let [b0, b1, b2, b3, b4, b5] = b;
    let n0 = xor(b3, b5);
    let n1 = and_not(b2, b1);
    let n2 = xor(n0, n1);
    let n4 = xor(and_not(b1, b3), b2);
    let n5 = or(b4, n4);
    let n6 = xor(n2, n5);
    let n8 = xor(and_not(b1, n6), n5);
    let n9 = and_not(b1, b2);
    let n10 = xor(n9, n4);
    let n11 = and(b4, n10);
    let n12 = xor(n8, n11);
    let n13 = and_not(n0, n11);
    let n14 = or(n13, n4);
    let n16 = or(b4, or(b2, n10));
    let n18 = and_not(xor(n14, n16), b5);
    let n19 = xor(n12, n18);
    let n20 = and(b0, n19);
    let n21 = xor(n6, n20);
    let n23 = xor(or(n2, b4), n4);
    let n24 = and_not(b1, n19);
    let n27 = xor(n23, or(b5, xor(n24, n2)));
    let n28 = or(b4, n10);
    let n30 = xor(and_not(n12, n13), n24);
    let n31 = or(b5, n30);
    let n33 = or(b0, xor(n28, n31));
    let n34 = xor(n27, n33);
    let n35 = xor(b0, n23);
    let n37 = and_not(or(n33, n31), b4);
    let n38 = xor(n35, n37);
    let n39 = and_not(n12, n1);
    let n43 = xor(n39, or(b3, xor(and(n16, n37), n20)));
    let n45 = xor(n38, and(b5, n43));
    let n46 = and_not(n34, n35);
    let n47 = xor(n46, n30);
    let n48 = and_not(n0, n18);
    let n49 = xor(n45, n13);
    let n53 = xor(n47, or(b2, xor(n48, or(b0, n49))));
    let n55 = and_not(n33, xor(n49, n46));
    let n60 = and_not(b4, xor(n55, or(b3, xor(or(n34, n9), n6))));
    let n61 = xor(n53, n60);
    [n34, n21, n61, n45]
}
