// SPDX-License-Identifier: Apache-2.0
// Client certificates for virt-handlers, which are renewed before they expire and with each new CA.
import { X509Certificate } from "node:crypto";
import { SECRETS } from "@patchbay/api";
import type { Secret } from "@patchbay/api/kubernetes";
import { createFakeCache } from "@patchbay/kube/testing";
import { createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { createAuthority, type Authority } from "@patchbay/pki";
import { beforeEach, expect, test } from "vitest";
import { printContents, SECRET_KEY } from "../certificates/secret.ts";
import { createFileCredentials, createIssuedCredentials } from "./credentials.ts";

const DAY = 24 * 3_600_000;

let clock: ReturnType<typeof createFakeClock>;
let authority: Authority;

beforeEach(async () => {
  clock = createFakeClock();
  authority = await createAuthority("own", clock);
});

function secretOf({ certPem, keyPem }: Authority): Secret {
  const contents = { bundlePem: certPem, caKeyPem: keyPem, certPem: "", keyPem: "" };
  return {
    apiVersion: "v1",
    kind: SECRETS.kind,
    metadata: { ...SECRET_KEY },
    data: printContents(contents),
  };
}

test("issued credentials are signed by the CA and reused while they are valid", async () => {
  const secrets = createFakeCache<Secret>();
  secrets.put(secretOf(authority));
  const read = createIssuedCredentials(secrets, clock);
  const first = await read();
  const certificate = new X509Certificate(first.certPem);
  expect(certificate.subject).toContain("CN=virt-api");
  expect(certificate.verify(new X509Certificate(authority.certPem).publicKey)).toBe(true);
  expect(await read()).toBe(first);
  await clock.advance(1.5 * DAY);
  const second = await read();
  expect(second.certPem).not.toBe(first.certPem);
  const other = await createAuthority("own", clock);
  secrets.put(secretOf(other));
  expect((await read()).caPem).toBe(other.certPem);
});

test("issued credentials need a CA", async () => {
  const read = createIssuedCredentials(createFakeCache<Secret>(), clock);
  await expect(read()).rejects.toMatchObject({ code: "KUBE_NOT_FOUND" });
});

test("file credentials are read each time, and a missing file is named", async () => {
  const files = createFakeFiles();
  const paths = { certFile: "/c", keyFile: "/k", caFile: "/ca" };
  const read = createFileCredentials(files, paths);
  await files.writeAtomic("/c", "cert");
  await files.writeAtomic("/k", "key");
  await expect(read()).rejects.toMatchObject({ details: { path: "/ca" } });
  await files.writeAtomic("/ca", "authority");
  expect(await read()).toEqual({ certPem: "cert", keyPem: "key", caPem: "authority" });
});
