import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.bouncycastle.asn1.ASN1ObjectIdentifier;
import org.bouncycastle.asn1.DERNull;
import org.bouncycastle.asn1.nist.NISTObjectIdentifiers;
import org.bouncycastle.asn1.oiw.OIWObjectIdentifiers;
import org.bouncycastle.asn1.pkcs.PKCSObjectIdentifiers;
import org.bouncycastle.asn1.pkcs.RSAESOAEPparams;
import org.bouncycastle.asn1.x509.AlgorithmIdentifier;
import org.bouncycastle.cert.jcajce.JcaCertStore;
import org.bouncycastle.cms.CMSAlgorithm;
import org.bouncycastle.cms.CMSAuthEnvelopedData;
import org.bouncycastle.cms.CMSAuthEnvelopedDataGenerator;
import org.bouncycastle.cms.CMSCompressedData;
import org.bouncycastle.cms.CMSCompressedDataStreamGenerator;
import org.bouncycastle.cms.CMSEnvelopedData;
import org.bouncycastle.cms.CMSEnvelopedDataGenerator;
import org.bouncycastle.cms.CMSEnvelopedDataStreamGenerator;
import org.bouncycastle.cms.CMSProcessableByteArray;
import org.bouncycastle.cms.CMSSignedData;
import org.bouncycastle.cms.CMSSignedDataGenerator;
import org.bouncycastle.cms.CMSSignedDataStreamGenerator;
import org.bouncycastle.cms.RecipientInformation;
import org.bouncycastle.cms.RecipientInformationStore;
import org.bouncycastle.cms.SignerInfoGenerator;
import org.bouncycastle.cms.SignerInformation;
import org.bouncycastle.cms.jcajce.JcaSimpleSignerInfoGeneratorBuilder;
import org.bouncycastle.cms.jcajce.JcaSimpleSignerInfoVerifierBuilder;
import org.bouncycastle.cms.jcajce.JceCMSContentEncryptorBuilder;
import org.bouncycastle.cms.jcajce.JceKeyTransEnvelopedRecipient;
import org.bouncycastle.cms.jcajce.JceKeyAgreeRecipientInfoGenerator;
import org.bouncycastle.cms.jcajce.JceKeyTransAuthEnvelopedRecipient;
import org.bouncycastle.cms.jcajce.JceKeyTransRecipientInfoGenerator;
import org.bouncycastle.cms.jcajce.ZlibCompressor;
import org.bouncycastle.cms.jcajce.ZlibExpanderProvider;
import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.bouncycastle.operator.OutputAEADEncryptor;
import org.bouncycastle.operator.OutputEncryptor;

/**
 * The other end of tests/bouncycastle.rs: CMS as BouncyCastle makes and reads it, which OpenAS2,
 * as2-lib and Camel stand on. In the folder it is given it reads {@code *.sent}, writes what is in
 * them as {@code *.read}, and writes messages of its own as {@code *.message}; each is the header
 * of HTTP and the body behind it.
 */
public class BouncyCastle {
    static final String BC = "BC";
    static Path folder;
    static PrivateKey ownKey;
    static X509Certificate own;
    static X509Certificate partner;

    public static void main(String[] arguments) throws Exception {
        java.security.Security.addProvider(new BouncyCastleProvider());
        folder = Path.of(arguments[0]);
        ownKey = KeyFactory.getInstance("RSA")
            .generatePrivate(new PKCS8EncodedKeySpec(Files.readAllBytes(folder.resolve("own.key"))));
        own = certificate("own.crt");
        partner = certificate("partner.crt");
        List<Path> sent = new ArrayList<>();
        try (var files = Files.newDirectoryStream(folder, "*.sent")) {
            files.forEach(sent::add);
        }
        for (Path file : sent) {
            String name = file.getFileName().toString().replace(".sent", ".read");
            Files.write(folder.resolve(name), read(Files.readAllBytes(file)));
        }
        make(Files.readAllBytes(folder.resolve("payload")));
    }

    static X509Certificate certificate(String name) throws Exception {
        byte[] bytes = Files.readAllBytes(folder.resolve(name));
        return (X509Certificate) CertificateFactory.getInstance("X.509")
            .generateCertificate(new ByteArrayInputStream(bytes));
    }

    // What is made.

    static void make(byte[] payload) throws Exception {
        byte[] entity = joined("Content-Type: application/edi-x12\r\nContent-Transfer-Encoding: binary"
            + "\r\nContent-Disposition: attachment;\r\n\tfilename=\"an order.edi\"\r\n\r\n", payload);
        for (String digest : List.of("SHA1", "SHA256", "SHA384", "SHA512")) {
            write("signed-" + digest, signed(entity, digest + "withRSA", true));
        }
        write("signed-pss", signed(entity, "SHA256withRSAandMGF1", true));
        write("signed-binary", signed(entity, "SHA256withRSA", false));
        byte[] both = signed(entity, "SHA256withRSA", true);
        ASN1ObjectIdentifier[] ciphers = {CMSAlgorithm.AES128_CBC, CMSAlgorithm.AES192_CBC,
            CMSAlgorithm.AES256_CBC, CMSAlgorithm.DES_EDE3_CBC};
        String[] names = {"aes128", "aes192", "aes256", "3des"};
        for (int at = 0; at < ciphers.length; at++) {
            write("streamed-" + names[at], streamed(both, ciphers[at], at % 2 == 0));
        }
        write("whole-aes128", enveloped(both, CMSAlgorithm.AES128_CBC, transport()));
        write("whole-keyid", enveloped(both, CMSAlgorithm.AES128_CBC, byKeyId()));
        write("whole-oaep-sha1", enveloped(both, CMSAlgorithm.AES128_CBC, oaep(sha1(), sha1())));
        write("whole-oaep-sha256", enveloped(both, CMSAlgorithm.AES256_CBC, oaep(sha256(), sha256())));
        write("whole-oaep-mixed", enveloped(both, CMSAlgorithm.AES256_CBC, oaep(sha256(), sha1())));
        for (String curve : List.of("P-256", "P-384")) {
            write("agreed-" + curve, agreed(both, curve));
        }
        // GCM in EnvelopedData, with the tag behind the content: as2-lib.
        write("gcm-inside-128", enveloped(both, CMSAlgorithm.AES128_GCM, transport()));
        write("gcm-inside-256", enveloped(both, CMSAlgorithm.AES256_GCM, transport()));
        write("gcm-streamed", streamed(both, CMSAlgorithm.AES128_GCM, true));
        write("gcm-auth", authEnveloped(both, CMSAlgorithm.AES128_GCM));
        write("compressed", compressed(entity));
        write("compressed-signed", signed(compressed(entity), "SHA256withRSA", true));
        write("signed-compressed", compressed(both));
        write("compressed-signed-encrypted",
            streamed(signed(compressed(entity), "SHA1withRSA", true), CMSAlgorithm.DES_EDE3_CBC, true));
        write("signed-compressed-encrypted", streamed(compressed(both), CMSAlgorithm.AES128_CBC, false));
        // The header says base64, the body is no such thing: as2-lib.
        String said = "application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\r\n"
            + "Content-Transfer-Encoding: base64";
        byte[] sealed = body(streamed(both, CMSAlgorithm.AES128_CBC, true));
        write("base64-said", joined("Content-Type: " + said + "\r\n\r\n", sealed));
        write("base64-done", joined("Content-Type: " + said + "\r\n\r\n",
            Base64.getMimeEncoder().encode(sealed)));
    }

    static void write(String name, byte[] message) throws Exception {
        Files.write(folder.resolve(name + ".message"), message);
    }

    static byte[] signed(byte[] entity, String algorithm, boolean base64) throws Exception {
        SignerInfoGenerator signer = new JcaSimpleSignerInfoGeneratorBuilder().setProvider(BC)
            .build(algorithm, ownKey, own);
        byte[] signature;
        if (base64) {
            CMSSignedDataStreamGenerator generator = new CMSSignedDataStreamGenerator();
            generator.addSignerInfoGenerator(signer);
            generator.addCertificates(new JcaCertStore(List.of(own)));
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            try (OutputStream content = generator.open(output, false)) {
                content.write(entity);
            }
            signature = output.toByteArray();
        } else {
            CMSSignedDataGenerator generator = new CMSSignedDataGenerator();
            generator.addSignerInfoGenerator(signer);
            signature = generator.generate(new CMSProcessableByteArray(entity), false).getEncoded();
        }
        String micalg = algorithm.replace("SHA", "sha-").replaceAll("with.*", "");
        if (algorithm.endsWith("MGF1")) {
            micalg = "rsassa-pss-" + micalg;
        }
        String boundary = "----=_Part_7_1234567.1700000000000";
        String head = "Content-Type: multipart/signed; protocol=\"application/pkcs7-signature\"; micalg="
            + micalg + "; \r\n\tboundary=\"" + boundary + "\"\r\n\r\n--" + boundary + "\r\n";
        String part = "\r\n--" + boundary + "\r\nContent-Type: application/pkcs7-signature; name=smime.p7s;"
            + " \r\n\tsmime-type=signed-data\r\nContent-Transfer-Encoding: " + (base64 ? "base64" : "binary")
            + "\r\nContent-Disposition: attachment; filename=\"smime.p7s\"\r\n"
            + "Content-Description: S/MIME Cryptographic Signature\r\n\r\n";
        byte[] encoded = base64 ? Base64.getMimeEncoder().encode(signature) : signature;
        byte[] whole = joined(head, entity);
        whole = join(whole, part.getBytes(StandardCharsets.US_ASCII));
        whole = join(whole, encoded);
        return join(whole, ("\r\n--" + boundary + "--\r\n").getBytes(StandardCharsets.US_ASCII));
    }

    static JceKeyTransRecipientInfoGenerator transport() throws Exception {
        return new JceKeyTransRecipientInfoGenerator(partner).setProvider(BC);
    }

    static JceKeyTransRecipientInfoGenerator byKeyId() throws Exception {
        byte[] id = new org.bouncycastle.cert.jcajce.JcaX509ExtensionUtils()
            .createSubjectKeyIdentifier(partner.getPublicKey()).getKeyIdentifier();
        byte[] said = partner.getExtensionValue("2.5.29.14");
        if (said != null) {
            id = Arrays.copyOfRange(said, 4, said.length);
        }
        return new JceKeyTransRecipientInfoGenerator(id, partner.getPublicKey()).setProvider(BC);
    }

    static AlgorithmIdentifier sha1() {
        return new AlgorithmIdentifier(OIWObjectIdentifiers.idSHA1, DERNull.INSTANCE);
    }

    static AlgorithmIdentifier sha256() {
        return new AlgorithmIdentifier(NISTObjectIdentifiers.id_sha256, DERNull.INSTANCE);
    }

    static JceKeyTransRecipientInfoGenerator oaep(AlgorithmIdentifier digest, AlgorithmIdentifier mask)
            throws Exception {
        AlgorithmIdentifier mgf = new AlgorithmIdentifier(PKCSObjectIdentifiers.id_mgf1, mask);
        RSAESOAEPparams parameters =
            new RSAESOAEPparams(digest, mgf, RSAESOAEPparams.DEFAULT_P_SOURCE_ALGORITHM);
        AlgorithmIdentifier algorithm =
            new AlgorithmIdentifier(PKCSObjectIdentifiers.id_RSAES_OAEP, parameters);
        return new JceKeyTransRecipientInfoGenerator(partner, algorithm).setProvider(BC);
    }

    static OutputEncryptor encryptor(ASN1ObjectIdentifier cipher) throws Exception {
        return new JceCMSContentEncryptorBuilder(cipher).setProvider(BC).build();
    }

    static final String ENVELOPED = "Content-Type: application/pkcs7-mime; smime-type=enveloped-data; "
        + "name=smime.p7m\r\nContent-Transfer-Encoding: binary\r\n\r\n";

    /** Indefinite lengths, and content in strings of 1,000 bytes. */
    static byte[] streamed(byte[] entity, ASN1ObjectIdentifier cipher, boolean recipients)
            throws Exception {
        CMSEnvelopedDataStreamGenerator generator = new CMSEnvelopedDataStreamGenerator();
        generator.addRecipientInfoGenerator(new JceKeyTransRecipientInfoGenerator(own).setProvider(BC));
        generator.addRecipientInfoGenerator(transport());
        generator.setBufferSize(1000);
        generator.setBEREncodeRecipients(recipients);
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        try (OutputStream content = generator.open(output, encryptor(cipher))) {
            content.write(entity);
        }
        return joined(ENVELOPED, output.toByteArray());
    }

    static byte[] enveloped(byte[] entity, ASN1ObjectIdentifier cipher,
            JceKeyTransRecipientInfoGenerator recipient) throws Exception {
        CMSEnvelopedDataGenerator generator = new CMSEnvelopedDataGenerator();
        generator.addRecipientInfoGenerator(recipient);
        return joined(ENVELOPED,
            generator.generate(new CMSProcessableByteArray(entity), encryptor(cipher)).getEncoded());
    }

    /** ECDH, with material of the sender's in the derivation. */
    static byte[] agreed(byte[] entity, String curve) throws Exception {
        KeyPairGenerator keys = KeyPairGenerator.getInstance("EC", BC);
        keys.initialize(new ECGenParameterSpec(curve));
        KeyPair made = keys.generateKeyPair();
        boolean small = curve.equals("P-256");
        JceKeyAgreeRecipientInfoGenerator recipient = new JceKeyAgreeRecipientInfoGenerator(
            small ? CMSAlgorithm.ECDH_SHA256KDF : CMSAlgorithm.ECCDH_SHA384KDF, made.getPrivate(),
            made.getPublic(), small ? CMSAlgorithm.AES128_WRAP : CMSAlgorithm.AES256_WRAP);
        recipient.setProvider(BC).addRecipient(certificate("partner-" + curve + ".crt"));
        recipient.setUserKeyingMaterial("sixteen octets..".getBytes(StandardCharsets.US_ASCII));
        CMSEnvelopedDataGenerator generator = new CMSEnvelopedDataGenerator();
        generator.addRecipientInfoGenerator(recipient);
        ASN1ObjectIdentifier cipher = small ? CMSAlgorithm.AES128_CBC : CMSAlgorithm.AES256_CBC;
        return joined(ENVELOPED,
            generator.generate(new CMSProcessableByteArray(entity), encryptor(cipher)).getEncoded());
    }

    static byte[] authEnveloped(byte[] entity, ASN1ObjectIdentifier cipher) throws Exception {
        CMSAuthEnvelopedDataGenerator generator = new CMSAuthEnvelopedDataGenerator();
        generator.addRecipientInfoGenerator(transport());
        byte[] data = generator.generate(new CMSProcessableByteArray(entity),
            (OutputAEADEncryptor) encryptor(cipher)).getEncoded();
        return joined(ENVELOPED.replace("enveloped-data", "authEnveloped-data"), data);
    }

    static byte[] compressed(byte[] entity) throws Exception {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        CMSCompressedDataStreamGenerator generator = new CMSCompressedDataStreamGenerator();
        try (OutputStream content = generator.open(output, new ZlibCompressor())) {
            content.write(entity);
        }
        return joined("Content-Type: application/pkcs7-mime; smime-type=compressed-data; name=smime.p7z\r\n"
            + "Content-Transfer-Encoding: binary\r\n\r\n", output.toByteArray());
    }

    // What is read.

    static byte[] read(byte[] message) throws Exception {
        String head = head(message);
        byte[] body = body(message);
        if (head.contains("smime-type=enveloped-data")) {
            RecipientInformationStore recipients = new CMSEnvelopedData(body).getRecipientInfos();
            return read(content(recipients, new JceKeyTransEnvelopedRecipient(ownKey).setProvider(BC)));
        }
        if (head.contains("smime-type=authEnveloped-data")) {
            RecipientInformationStore recipients = new CMSAuthEnvelopedData(body).getRecipientInfos();
            return read(
                content(recipients, new JceKeyTransAuthEnvelopedRecipient(ownKey).setProvider(BC)));
        }
        if (head.contains("smime-type=compressed-data")) {
            return read(new CMSCompressedData(body).getContent(new ZlibExpanderProvider()));
        }
        if (head.contains("multipart/signed")) {
            return read(verified(head, body));
        }
        return body;
    }

    static byte[] content(RecipientInformationStore recipients, org.bouncycastle.cms.Recipient how)
            throws Exception {
        RecipientInformation first = recipients.getRecipients().iterator().next();
        return first.getContent(how);
    }

    static byte[] verified(String head, byte[] body) throws Exception {
        Matcher matcher = Pattern.compile("boundary=\"([^\"]+)\"").matcher(head);
        matcher.find();
        // Latin 1 has a character for each byte.
        String text = new String(body, StandardCharsets.ISO_8859_1);
        String[] parts = text.split(Pattern.quote("--" + matcher.group(1)));
        byte[] entity = parts[1].substring(2, parts[1].length() - 2).getBytes(StandardCharsets.ISO_8859_1);
        byte[] part = parts[2].getBytes(StandardCharsets.ISO_8859_1);
        CMSSignedData signature = new CMSSignedData(
            new CMSProcessableByteArray(entity), Base64.getMimeDecoder().decode(body(part)));
        for (SignerInformation signer : signature.getSignerInfos()) {
            if (!signer.verify(
                    new JcaSimpleSignerInfoVerifierBuilder().setProvider(BC).build(partner))) {
                throw new IllegalStateException("the signature does not hold");
            }
        }
        return entity;
    }

    static int end(byte[] message) {
        String text = new String(message, StandardCharsets.ISO_8859_1);
        return text.indexOf("\r\n\r\n") + 4;
    }

    static String head(byte[] message) {
        return new String(message, 0, end(message), StandardCharsets.ISO_8859_1);
    }

    static byte[] body(byte[] message) {
        return Arrays.copyOfRange(message, end(message), message.length);
    }

    static byte[] joined(String head, byte[] body) {
        return join(head.getBytes(StandardCharsets.US_ASCII), body);
    }

    static byte[] join(byte[] one, byte[] other) {
        byte[] both = Arrays.copyOf(one, one.length + other.length);
        System.arraycopy(other, 0, both, one.length, other.length);
        return both;
    }
}
