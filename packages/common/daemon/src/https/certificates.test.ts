// SPDX-License-Identifier: Apache-2.0
// Whose certificate makes a caller one that is meant?
import { X509Certificate } from "node:crypto";
import { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { TLSSocket } from "node:tls";
import { createClock } from "@patchbay/os";
import { createAuthority, issueCertificate, type Authority } from "@patchbay/pki";
import { createFakeFiles } from "@patchbay/os/testing";
import { beforeAll, describe, expect, test } from "vitest";
import { ClientAuthority, trustInFile } from "./certificates.ts";

const FILE = "/ca.pem";

let ours: Authority;
let renewed: Authority;
let otherAuthority: Authority;

beforeAll(async () => {
  const clock = createClock();
  ours = await createAuthority("front-proxy-ca", clock);
  renewed = await createAuthority("front-proxy-ca-2", clock);
  otherAuthority = await createAuthority("others-ca", clock);
});

async function certificate(authority: Authority, commonName = "proxy"): Promise<X509Certificate> {
  const issued = await issueCertificate(authority, {
    commonName,
    organizations: ["group"],
    usages: ["client"],
    dnsNames: [],
    ipAddresses: [],
    validDays: 1,
  });
  return new X509Certificate(issued.certPem);
}

/** A connection over which TLS has brought that chain, nearest first. */
function shown(chain: readonly X509Certificate[], authorized = true) {
  chain.forEach((each, index) => {
    Object.defineProperty(each, "issuerCertificate", {
      value: chain[index + 1],
      configurable: true,
    });
  });
  const socket = new TLSSocket(new PassThrough());
  return { socket: Object.assign(socket, { authorized, getPeerX509Certificate: () => chain[0] }) };
}

/** An authority that has read its file. */
async function reading(caFile: string | undefined, names: readonly string[] = []) {
  const files = createFakeFiles();
  if (caFile !== undefined) await files.writeAtomic(FILE, caFile);
  const authority = new ClientAuthority(trustInFile(files, { caFile: FILE, names }));
  const read = authority.read();
  return { authority, files, text: await read };
}

describe("a client", () => {
  test.each<{ name: string; names: readonly string[]; want: boolean }>([
    { name: "signed by the authority", names: [], want: true },
    { name: "with an allowed name", names: ["a", "proxy"], want: true },
    { name: "with a different name", names: ["a"], want: false },
  ])("$name is accepted: $want", async ({ names, want }) => {
    const { authority } = await reading(ours.certPem, names);
    expect(authority.isTrustedClient(shown([await certificate(ours)]))).toBe(want);
  });

  test.each([{}, { CN: ["proxy", "other"] }])(
    "without exactly one name, as in %j, is rejected",
    async (subject) => {
      const { authority } = await reading(ours.certPem);
      const known = await certificate(ours);
      const legacy = { ...known.toLegacyObject(), subject };
      const unnamed = Object.assign(known, { toLegacyObject: () => legacy });
      expect(authority.isTrustedClient(shown([unnamed]))).toBe(false);
    },
  );

  test("of another authority is rejected", async () => {
    const { authority } = await reading(ours.certPem);
    expect(authority.isTrustedClient(shown([await certificate(otherAuthority)]))).toBe(false);
  });

  test("of another authority with the same name is rejected", async () => {
    const { authority } = await reading(ours.certPem);
    const forged = await createAuthority("front-proxy-ca", createClock());
    expect(authority.isTrustedClient(shown([await certificate(forged)]))).toBe(false);
  });

  test("is accepted if intermediate certificates lead to the authority", async () => {
    const { authority } = await reading(ours.certPem, ["leaf"]);
    const between = await certificate(ours, "between");
    const leaf = await certificate(otherAuthority, "leaf");
    expect(authority.isTrustedClient(shown([leaf, between]))).toBe(true);
    expect(authority.isTrustedClient(shown([leaf, await certificate(otherAuthority)]))).toBe(false);
  });

  test("with a self-issued authority is verified without an endless loop", async () => {
    const { authority } = await reading(otherAuthority.certPem);
    const leaf = await certificate(ours);
    const root = new X509Certificate(ours.certPem);
    const connection = shown([leaf, root]);
    Object.defineProperty(root, "issuerCertificate", { value: root });
    expect(authority.isTrustedClient(connection)).toBe(false);
  });

  test("is rejected without TLS, without TLS authorization, and without a certificate", async () => {
    const { authority } = await reading(ours.certPem);
    const known = await certificate(ours);
    expect(authority.isTrustedClient({ socket: new Socket() })).toBe(false);
    expect(authority.isTrustedClient(shown([known], false))).toBe(false);
    expect(authority.isTrustedClient(shown([]))).toBe(false);
  });

  test("is verified once for each connection, and again after the file is read again", async () => {
    const { authority, files } = await reading(ours.certPem);
    const connection = shown([await certificate(ours)]);
    const shownOne = connection.socket.getPeerX509Certificate();
    let reads = 0;
    connection.socket.getPeerX509Certificate = () => {
      reads += 1;
      return shownOne;
    };
    expect([authority.isTrustedClient(connection), authority.isTrustedClient(connection)]).toEqual([
      true,
      true,
    ]);
    expect(reads).toBe(1);
    await files.writeAtomic(FILE, renewed.certPem);
    await authority.read();
    expect(authority.isTrustedClient(connection)).toBe(false);
    expect(reads).toBe(2);
  });
});

describe("the authority file", () => {
  test("may contain several authorities", async () => {
    const { authority, text } = await reading(`${ours.certPem}\n# the next\n${renewed.certPem}`);
    expect(text).toContain("# the next");
    expect(authority.isTrustedClient(shown([await certificate(ours)]))).toBe(true);
    expect(authority.isTrustedClient(shown([await certificate(renewed)]))).toBe(true);
    expect(authority.isTrustedClient(shown([await certificate(otherAuthority)]))).toBe(false);
  });

  test("takes effect when it is read, and rejects all clients before", async () => {
    const unread = new ClientAuthority(trustInFile(createFakeFiles(), { caFile: FILE, names: [] }));
    expect(unread.isTrustedClient(shown([await certificate(ours)]))).toBe(false);
    const { authority, files } = await reading(ours.certPem);
    await files.writeAtomic(FILE, renewed.certPem);
    await authority.read();
    expect(authority.isTrustedClient(shown([await certificate(ours)]))).toBe(false);
    expect(authority.isTrustedClient(shown([await certificate(renewed)]))).toBe(true);
  });

  test("rejects all clients if it is empty", async () => {
    const { authority, text } = await reading("");
    expect(text).toBe("");
    expect(authority.isTrustedClient(shown([await certificate(ours)]))).toBe(false);
  });

  test("is named in the error if it is missing", async () => {
    await expect(reading(undefined)).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call: "open", path: FILE, reason: "no such file" },
    });
  });
});
