// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { toAppError } from "./errors.ts";
import {
  buildMigrationArguments,
  parseJob,
  VIR_DOMAIN_JOB_OPERATION,
  VIR_MIGRATE,
} from "./migration.ts";

const WAYS = { peerUri: "qemu+unix:///session?socket=/p", memoryUri: "unix:///m" };

test("numbers equal those of libvirt-domain.h", () => {
  const groups = { VIR_MIGRATE_: VIR_MIGRATE, VIR_DOMAIN_JOB_OPERATION_: VIR_DOMAIN_JOB_OPERATION };
  const assertions = Object.entries(groups).flatMap(([prefix, numbers]) =>
    Object.entries(numbers).map(
      ([name, value]) => `static_assert(${prefix}${name} == ${String(value)}, "${name}");`,
    ),
  );
  const input = ["#include <libvirt/libvirt.h>", ...assertions].join("\n");
  const args = ["-fsyntax-only", "-x", "c++", "-"];
  const { stderr } = spawnSync("g++", args, { input, encoding: "utf8", timeout: 30_000 });
  expect(stderr).toBe("");
});

describe("migration arguments", () => {
  const LEAST = 1 | 2 | 8 | 32;
  test.each([
    { name: "only the flags and URIs", parameters: {}, flags: LEAST, want: [] },
    {
      name: "the destination's domain XML",
      parameters: { liveXml: "<live/>", configXml: "<config/>" },
      flags: LEAST,
      want: ["destination_xml", "<live/>", "persistent_xml", "<config/>"],
    },
    {
      name: "a bandwidth limit and the flag for throttling the guest",
      parameters: { bandwidthMibPerSecond: 64, throttles: true },
      flags: LEAST | 8192,
      want: ["bandwidth", "64"],
    },
    {
      name: "the flag for unsafe disks",
      parameters: { allowsUnsafe: true },
      flags: LEAST | 512,
      want: [],
    },
    {
      name: "disks to copy",
      parameters: { disks: { uri: "unix:///d", targets: ["vda", "vdb"] } },
      flags: LEAST | 128,
      want: ["disks_uri", "unix:///d", "migrate_disks", "vda", "migrate_disks", "vdb"],
    },
  ])("contain $name", ({ parameters, flags, want }) => {
    expect(buildMigrationArguments("vm1", { ...WAYS, ...parameters })).toEqual([
      "vm1",
      WAYS.peerUri,
      String(flags),
      "migrate_uri",
      WAYS.memoryUri,
      ...want,
    ]);
  });
});

test.each([
  { name: "no answer", job: undefined, want: { state: "unknown" } },
  { name: "no job", job: { type: "none" }, want: { state: "none" } },
  { name: "an unknown type", job: { type: "odd" }, want: { state: "unknown" } },
  {
    name: "an outgoing migration with numbers",
    job: {
      type: "running",
      operation: "5",
      time_elapsed: "1200",
      data_total: "134217728",
      data_processed: "1000",
      data_remaining: "2000",
      memory_bps: "3000",
      memory_dirty_rate: "7",
      memory_page_size: "4096",
      auto_converge_throttle: "20",
      downtime: "136",
      errmsg: "",
    },
    want: {
      state: "running",
      move: "out",
      elapsedMs: 1200,
      totalBytes: 134_217_728,
      processedBytes: 1000,
      remainingBytes: 2000,
      memoryBytesPerSecond: 3000,
      dirtyPagesPerSecond: 7,
      pageBytes: 4096,
      throttlePercent: 20,
      downtimeMs: 136,
    },
  },
  {
    name: "an incoming migration with invalid numbers",
    job: {
      type: "running",
      operation: "4",
      data_total: "-1",
      memory_bps: 7,
      downtime: "7 ms",
      time_elapsed: "1".repeat(16),
    },
    want: { state: "running", move: "in" },
  },
])("parses a job: $name", ({ job, want }) => {
  expect(parseJob(job)).toEqual(want);
});

test("a broken connection during a migration may be the one between the daemons", () => {
  const error = { number: 1, domain: 7, level: 2, message: "client socket is closed" };
  const findCode = (call: string): string => toAppError(error, { call }).code;
  expect(findCode("virDomainMigrateToURI3")).toBe("LIBVIRT_PEER_LOST");
  expect(findCode("virDomainSuspend")).toBe("LIBVIRT_CONNECTION_LOST");
});
