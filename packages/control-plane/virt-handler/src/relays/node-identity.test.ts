// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import { createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { createAuthority, issueCertificate } from "@patchbay/pki";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, expect, test } from "vitest";
import { identityFromDirectory, waitForIdentity } from "./node-identity.ts";

const clock = createFakeClock();
const authority = await createAuthority("patchbay-test", clock);
let files: ReturnType<typeof createFakeFiles>;

beforeEach(() => {
  files = createFakeFiles();
});

async function keep(commonName: string, organizations: readonly string[]): Promise<void> {
  const { certPem, keyPem } = await issueCertificate(authority, {
    commonName,
    organizations,
    dnsNames: [],
    ipAddresses: [],
    usages: ["server", "client"],
    validDays: 1,
  });
  await files.writeAtomic("/relay/tls.key", keyPem);
  await files.writeAtomic("/relay/tls.crt", certPem);
  await files.writeAtomic("/relay/ca.crt", authority.certPem);
}

const read = () => identityFromDirectory(files, "/relay", "node-1")();

test("reads the files each time", async () => {
  await keep("node-1", [names.RELAY_GROUP]);
  const first = await read();
  expect(first.authorityPem).toBe(authority.certPem);
  await keep("node-1", [names.RELAY_GROUP]);
  const second = await read();
  expect(second.certPem).not.toBe(first.certPem);
  expect(second.certPem).toBe(await files.readText("/relay/tls.crt"));
});

test.each([
  { name: "a certificate of another node", node: "node-2", groups: [names.RELAY_GROUP] },
  { name: "a certificate for another usage", node: "node-1", groups: [] },
  {
    name: "a certificate with two groups",
    node: "node-1",
    groups: [names.RELAY_GROUP, "system:masters"],
  },
])("does not present $name", async ({ node, groups }) => {
  await keep(node, groups);
  await expect(read()).rejects.toThrow("the certificate for migrations does not name node node-1");
});

test.each([
  { name: "a key of another certificate", file: "tls.key", want: "do not belong together" },
  { name: "an invalid certificate", file: "tls.crt", want: "cannot be read" },
])("reports $name", async ({ file, want }) => {
  await keep("node-1", [names.RELAY_GROUP]);
  const text = file === "tls.crt" ? "none" : authority.keyPem;
  await files.writeAtomic(`/relay/${file}`, text);
  await expect(read()).rejects.toThrow(want);
});

test("reports a missing file", async () => {
  await expect(read()).rejects.toThrow("file /relay/tls.crt does not exist");
});

test("reports a fault once at the start, and its end", async () => {
  const log = createFakeLogger();
  const done = waitForIdentity(read, { clock, log }, new AbortController().signal);
  for (let time = 0; time < 2; time += 1) {
    await expect.poll(() => clock.dueMs).toHaveLength(1);
    await clock.advance(30_000);
  }
  await keep("node-1", [names.RELAY_GROUP]);
  await expect.poll(() => clock.dueMs).toHaveLength(1);
  await clock.advance(30_000);
  await done;
  expect(log.lines.map(({ level }) => level)).toEqual(["warn", "info"]);
});
