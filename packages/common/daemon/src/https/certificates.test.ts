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
    { name: "of the authority", names: [], want: true },
    { name: "of a name that is meant", names: ["a", "proxy"], want: true },
    { name: "of another name", names: ["a"], want: false },
  ])("$name is vouched for: $want", async ({ names, want }) => {
    const { authority } = await reading(ours.certPem, names);
    expect(authority.isTrustedClient(shown([await certificate(ours)]))).toBe(want);
  });

  test.each([{}, { CN: ["proxy", "other"] }])(
    "of no one name, as %j, is not meant",
    async (subject) => {
      const { authority } = await reading(ours.certPem);
      const known = await certificate(ours);
      const legacy = { ...known.toLegacyObject(), subject };
      const unnamed = Object.assign(known, { toLegacyObject: () => legacy });
      expect(authority.isTrustedClient(shown([unnamed]))).toBe(false);
    },
  );

  test("of another authority is not meant", async () => {
    const { authority } = await reading(ours.certPem);
    expect(authority.isTrustedClient(shown([await certificate(otherAuthority)]))).toBe(false);
  });

  test("of another authority of the same name is not meant", async () => {
    const { authority } = await reading(ours.certPem);
    const forged = await createAuthority("front-proxy-ca", createClock());
    expect(authority.isTrustedClient(shown([await certificate(forged)]))).toBe(false);
  });

  test("is of the authority through those that sign for it", async () => {
    const { authority } = await reading(ours.certPem, ["leaf"]);
    const between = await certificate(ours, "between");
    const leaf = await certificate(otherAuthority, "leaf");
    expect(authority.isTrustedClient(shown([leaf, between]))).toBe(true);
    expect(authority.isTrustedClient(shown([leaf, await certificate(otherAuthority)]))).toBe(false);
  });

  test("whose authority is its own issuer is judged once", async () => {
    const { authority } = await reading(otherAuthority.certPem);
    const leaf = await certificate(ours);
    const root = new X509Certificate(ours.certPem);
    const connection = shown([leaf, root]);
    Object.defineProperty(root, "issuerCertificate", { value: root });
    expect(authority.isTrustedClient(connection)).toBe(false);
  });

  test("is nobody without TLS, without TLS's word, and without a certificate", async () => {
    const { authority } = await reading(ours.certPem);
    const known = await certificate(ours);
    expect(authority.isTrustedClient({ socket: new Socket() })).toBe(false);
    expect(authority.isTrustedClient(shown([known], false))).toBe(false);
    expect(authority.isTrustedClient(shown([]))).toBe(false);
  });

  test("is judged once for each connection, and again by what is read anew", async () => {
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

describe("the file", () => {
  test("may hold several authorities", async () => {
    const { authority, text } = await reading(`${ours.certPem}\n# the next\n${renewed.certPem}`);
    expect(text).toContain("# the next");
    expect(authority.isTrustedClient(shown([await certificate(ours)]))).toBe(true);
    expect(authority.isTrustedClient(shown([await certificate(renewed)]))).toBe(true);
    expect(authority.isTrustedClient(shown([await certificate(otherAuthority)]))).toBe(false);
  });

  test("counts anew once it is read anew, and nobody counts before", async () => {
    const unread = new ClientAuthority(trustInFile(createFakeFiles(), { caFile: FILE, names: [] }));
    expect(unread.isTrustedClient(shown([await certificate(ours)]))).toBe(false);
    const { authority, files } = await reading(ours.certPem);
    await files.writeAtomic(FILE, renewed.certPem);
    await authority.read();
    expect(authority.isTrustedClient(shown([await certificate(ours)]))).toBe(false);
    expect(authority.isTrustedClient(shown([await certificate(renewed)]))).toBe(true);
  });

  test("that is empty makes nobody known", async () => {
    const { authority, text } = await reading("");
    expect(text).toBe("");
    expect(authority.isTrustedClient(shown([await certificate(ours)]))).toBe(false);
  });

  test("that is not there is named", async () => {
    await expect(reading(undefined)).rejects.toMatchObject({
      code: "OS_FILE_FAILED",
      details: { call: "open", path: FILE, reason: "no such file" },
    });
  });
});
