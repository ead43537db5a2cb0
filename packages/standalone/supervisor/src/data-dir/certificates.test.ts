// SPDX-License-Identifier: Apache-2.0
// What becomes of a machine's certificates over the years?
import { names } from "@patchbay/api";
import {
  readCertificateEnd,
  isIssuedFor,
  readCertificateStart,
  readCertificateSubject,
} from "@patchbay/pki";
import { createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import {
  ensureComponentCertificates,
  ensureServerCertificates,
  readNewestValidityStartMs,
} from "./certificates.ts";
import { buildPaths } from "./paths.ts";

const DAY_MS = 24 * 3_600_000;

function setUp() {
  const clock = createFakeClock();
  const deps = { files: createFakeFiles(), clock, paths: buildPaths("/data") };
  return { clock, deps };
}

test("renews a certificate 60 days before it expires, and reports its start time as the newest", async () => {
  const { clock, deps } = setUp();
  const first = await ensureServerCertificates(deps);
  await clock.advance(300 * DAY_MS);
  expect((await ensureServerCertificates(deps)).apiServer).toEqual(first.apiServer);
  const before = await readNewestValidityStartMs(deps);
  await clock.advance(10 * DAY_MS);
  const { apiServer, ca } = await ensureServerCertificates(deps);
  expect(readCertificateEnd(apiServer.certPem) - clock.now()).toBeGreaterThan(364 * DAY_MS);
  expect(ca.certPem).toBe(first.ca.certPem);
  expect(await readNewestValidityStartMs(deps)).toBe(readCertificateStart(apiServer.certPem));
  expect(await readNewestValidityStartMs(deps)).toBeGreaterThan(before);
});

test("renews a CA before it expires; the old and the new CA verify each other's certificates", async () => {
  const { clock, deps } = setUp();
  const first = await ensureServerCertificates(deps);
  await clock.advance(3300 * DAY_MS);
  const later = await ensureServerCertificates(deps);
  expect(later.ca.keyPem).toBe(first.ca.keyPem);
  expect(readCertificateEnd(later.ca.certPem) - clock.now()).toBeGreaterThan(3649 * DAY_MS);
  expect(isIssuedFor(later.apiServer.certPem, first.ca.certPem, "localhost")).toBe(true);
  expect(isIssuedFor(first.apiServer.certPem, later.ca.certPem, "localhost")).toBe(true);
});

test("the relay certificate has the node's name and the relay group, and follows a new name", async () => {
  const { clock, deps } = setUp();
  const { ca } = await ensureServerCertificates(deps);
  const keep = async (nodeName: string): Promise<string> => {
    await ensureComponentCertificates(deps, ca, { server: "https://127.0.0.1:6443", nodeName });
    return (await deps.files.readText("/data/pki/relay/tls.crt")) ?? "";
  };
  const first = await keep("node-1");
  expect(readCertificateSubject(first)).toEqual({
    commonName: "node-1",
    organizations: [names.RELAY_GROUP],
  });
  expect(await deps.files.readText("/data/pki/relay/ca.crt")).toBe(ca.certPem);
  expect(await keep("node-1")).toBe(first);
  expect(readCertificateSubject(await keep("node-2")).commonName).toBe("node-2");
  await clock.advance(310 * DAY_MS);
  expect(readCertificateEnd(await keep("node-2")) - clock.now()).toBeGreaterThan(364 * DAY_MS);
});

test("no other certificate on the machine has the relay group", async () => {
  const { deps } = setUp();
  const { ca } = await ensureServerCertificates(deps);
  const machine = { server: "https://127.0.0.1:6443", nodeName: "node-1" };
  await ensureComponentCertificates(deps, ca, machine);
  const found = (await deps.files.list("/data/pki")).filter((name) => name.endsWith(".crt"));
  const texts = await Promise.all(found.map((name) => deps.files.readText(`/data/pki/${name}`)));
  const groups = texts.flatMap((text) => readCertificateSubject(text ?? "").organizations);
  expect(found.length).toBeGreaterThan(10);
  expect(groups).not.toContain(names.RELAY_GROUP);
});
