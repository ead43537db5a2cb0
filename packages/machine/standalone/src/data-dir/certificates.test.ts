// SPDX-License-Identifier: Apache-2.0
// What becomes of a machine's certificates over the years?
import { endOfCertificate, isIssuedFor, startOfCertificate } from "@patchbay/pki";
import { createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { keepServerCertificates, newestCertificateMs } from "./certificates.ts";
import { pathsOf } from "./paths.ts";

const DAY_MS = 24 * 3_600_000;

function setUp() {
  const clock = createFakeClock();
  const deps = { files: createFakeFiles(), clock, paths: pathsOf("/data") };
  return { clock, deps };
}

test("a certificate is made anew 60 days before its end, and is the newest then", async () => {
  const { clock, deps } = setUp();
  const first = await keepServerCertificates(deps);
  await clock.advance(300 * DAY_MS);
  expect((await keepServerCertificates(deps)).apiServer).toEqual(first.apiServer);
  const before = await newestCertificateMs(deps);
  await clock.advance(10 * DAY_MS);
  const { apiServer, ca } = await keepServerCertificates(deps);
  expect(endOfCertificate(apiServer.certPem) - clock.now()).toBeGreaterThan(364 * DAY_MS);
  expect(ca.certPem).toBe(first.ca.certPem);
  expect(await newestCertificateMs(deps)).toBe(startOfCertificate(apiServer.certPem));
  expect(await newestCertificateMs(deps)).toBeGreaterThan(before);
});

test("an authority goes on before its end: who trusts the one before trusts what this one signs, and the reverse", async () => {
  const { clock, deps } = setUp();
  const first = await keepServerCertificates(deps);
  await clock.advance(3300 * DAY_MS);
  const later = await keepServerCertificates(deps);
  expect(later.ca.keyPem).toBe(first.ca.keyPem);
  expect(endOfCertificate(later.ca.certPem) - clock.now()).toBeGreaterThan(3649 * DAY_MS);
  expect(isIssuedFor(later.apiServer.certPem, first.ca.certPem, "localhost")).toBe(true);
  expect(isIssuedFor(first.apiServer.certPem, later.ca.certPem, "localhost")).toBe(true);
});
