// SPDX-License-Identifier: Apache-2.0
// Do certificates work in real TLS, with names, users and groups?
import { once } from "node:events";
import { X509Certificate, createPrivateKey } from "node:crypto";
import { type TLSSocket, connect, createServer } from "node:tls";
import { expect, test } from "vitest";
import {
  type Authority,
  type IssuedCertificate,
  createAuthority,
  readCertificateEnd,
  issueCertificate,
  readCertificateSubject,
  kubeconfigText,
  loadAuthority,
} from "./index.ts";

/** The text of PKI_PEM_INVALID. */
const UNREADABLE = /the certificate authority cannot be read/;

const clock = { now: () => Date.now() };

function serverCertificate(authority: Authority): Promise<IssuedCertificate> {
  return issueCertificate(authority, {
    commonName: "server",
    organizations: [],
    dnsNames: ["localhost"],
    ipAddresses: ["127.0.0.1"],
    usages: ["server"],
    validDays: 1,
  });
}

function clientCertificate(authority: Authority): Promise<IssuedCertificate> {
  return issueCertificate(authority, {
    commonName: "jane",
    organizations: ["system:masters", "devs"],
    dnsNames: [],
    ipAddresses: [],
    usages: ["client"],
    validDays: 1,
  });
}

async function handshake(ca: string, server: IssuedCertificate, client: IssuedCertificate) {
  const listener = createServer({
    key: server.keyPem,
    cert: server.certPem,
    ca,
    requestCert: true,
    rejectUnauthorized: true,
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  const accepted = once(listener, "secureConnection");
  const socket = connect({ host: "127.0.0.1", port, ca, key: client.keyPem, cert: client.certPem });
  try {
    await once(socket, "secureConnect");
    const [peer] = (await accepted) as [TLSSocket];
    return peer.getPeerCertificate().subject;
  } finally {
    socket.destroy();
    listener.close();
  }
}

test("a client certificate carries user and groups through TLS", async () => {
  const authority = await createAuthority("test", clock);
  const [server, client] = await Promise.all([
    serverCertificate(authority),
    clientCertificate(authority),
  ]);
  expect(await handshake(authority.certPem, server, client)).toMatchObject({
    CN: "jane",
    O: ["system:masters", "devs"],
  });
});

test("an authority stored as PEM issues certificates that existing clients trust", async () => {
  const first = await createAuthority("test", clock);
  const again = loadAuthority({ certPem: first.certPem, keyPem: first.keyPem }, clock);
  const server = await serverCertificate(again);
  const client = await clientCertificate(first);
  expect(await handshake(first.certPem, server, client)).toMatchObject({ CN: "jane" });
});

test("rejects a certificate of another authority", async () => {
  const authority = await createAuthority("test", clock);
  const other = await createAuthority("test", clock);
  const server = await serverCertificate(other);
  const client = await clientCertificate(authority);
  await expect(handshake(authority.certPem, server, client)).rejects.toThrow();
});

test("a certificate does not outlive its authority", async () => {
  const authority = await createAuthority("test", clock);
  const issued = await issueCertificate(authority, {
    commonName: "a",
    organizations: [],
    dnsNames: [],
    ipAddresses: [],
    usages: ["client"],
    validDays: 100_000,
  });
  expect(readCertificateEnd(issued.certPem)).toBe(readCertificateEnd(authority.certPem));
});

test("the key belongs to the certificate", async () => {
  const authority = await createAuthority("test", clock);
  const issued = await clientCertificate(authority);
  expect(new X509Certificate(issued.certPem).checkPrivateKey(createPrivateKey(issued.keyPem))).toBe(
    true,
  );
});

test("readCertificateSubject returns the name and the organizations", async () => {
  const { certPem } = await issueCertificate(await createAuthority("test", clock), {
    commonName: "jane",
    organizations: ["devs", "patchbay.io:node:a"],
    dnsNames: [],
    ipAddresses: [],
    usages: ["client"],
    validDays: 1,
  });
  const want = { commonName: "jane", organizations: ["devs", "patchbay.io:node:a"] };
  expect(readCertificateSubject(certPem)).toEqual(want);
});

test.each([
  { name: "a file without PEM", certPem: "x", keyPem: "y" },
  { name: "an empty file", certPem: "", keyPem: "" },
])("rejects an authority from $name with a code", ({ certPem, keyPem }) => {
  expect(() => loadAuthority({ certPem, keyPem }, clock)).toThrow(UNREADABLE);
});

test("rejects an authority with a foreign key, and a server certificate as authority", async () => {
  const first = await createAuthority("test", clock);
  const other = await createAuthority("test", clock);
  const server = await serverCertificate(first);
  expect(() => loadAuthority({ certPem: first.certPem, keyPem: other.keyPem }, clock)).toThrow(
    UNREADABLE,
  );
  expect(() => loadAuthority(server, clock)).toThrow(UNREADABLE);
});

test("a kubeconfig embeds everything a client needs", () => {
  const text = kubeconfigText({
    server: "https://127.0.0.1:6443",
    caPem: "CA",
    certPem: "CERT",
    keyPem: "KEY",
    user: "kubernetes-admin",
  });
  expect(JSON.parse(text)).toMatchObject({
    "current-context": "kubernetes-admin@patchbay",
    clusters: [{ cluster: { "certificate-authority-data": "Q0E=" } }],
  });
});
