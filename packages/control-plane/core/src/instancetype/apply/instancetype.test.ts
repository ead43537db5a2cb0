// SPDX-License-Identifier: Apache-2.0
// What an instancetype decides, and what clashes with it. Source of the rows: KubeVirt pkg/instancetype/apply.
import type { InstancetypeSpec, VmiSpec } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { listConflictCauses, withInstancetype, type Template } from "./instancetype.ts";

const SMALL: InstancetypeSpec = { cpu: { guest: 2 }, memory: { guest: "1Gi" } };
const BASE = "spec.template.spec";

function specOf(domain: VmiSpec["domain"], more: Partial<VmiSpec> = {}): Template {
  return { spec: { ...more, domain } };
}

const ALL: InstancetypeSpec = {
  cpu: {
    guest: 2,
    model: "host-passthrough",
    maxSockets: 4,
    dedicatedCPUPlacement: true,
    isolateEmulatorThread: true,
    numa: { guestMappingPassthrough: {} },
    realtime: { mask: "0-1" },
  },
  memory: { guest: "1Gi", hugepages: { pageSize: "2Mi" }, maxGuest: "4Gi" },
  nodeSelector: { zone: "a" },
  schedulerName: "own",
  annotations: { size: "small" },
  ioThreadsPolicy: "auto",
  ioThreads: { supplementalPoolThreadCount: 2 },
  gpus: [{ name: "gpu", deviceName: "example.com/gpu" }],
  hostDevices: [{ name: "dev", deviceName: "example.com/dev" }],
  launchSecurity: { sev: {} },
};

describe("a template without the field", () => {
  test("gets vCPUs as sockets, and memory", () => {
    expect(withInstancetype(specOf({}), SMALL, undefined).spec).toEqual({
      domain: { cpu: { sockets: 2, cores: 1, threads: 1 }, memory: { guest: "1Gi" } },
    });
  });

  test("gets all fields and retains its own", () => {
    const template: Template = {
      metadata: { labels: { app: "db" }, annotations: { own: "kept" } },
      spec: {
        hostname: "db",
        domain: { cpu: { features: [{ name: "apic" }] }, devices: { rng: {} } },
      },
    };
    expect(withInstancetype(template, ALL, undefined)).toEqual({
      metadata: { labels: { app: "db" }, annotations: { size: "small", own: "kept" } },
      spec: {
        hostname: "db",
        nodeSelector: { zone: "a" },
        schedulerName: "own",
        domain: {
          cpu: {
            features: [{ name: "apic" }],
            sockets: 2,
            cores: 1,
            threads: 1,
            model: "host-passthrough",
            maxSockets: 4,
            dedicatedCpuPlacement: true,
            isolateEmulatorThread: true,
            numa: { guestMappingPassthrough: {} },
            realtime: { mask: "0-1" },
          },
          memory: { guest: "1Gi", hugepages: { pageSize: "2Mi" }, maxGuest: "4Gi" },
          devices: { rng: {}, gpus: ALL.gpus, hostDevices: ALL.hostDevices },
          ioThreadsPolicy: "auto",
          ioThreads: { supplementalPoolThreadCount: 2 },
          launchSecurity: { sev: {} },
        },
      },
    });
  });

  test("is not modified itself", () => {
    const template = specOf({});
    withInstancetype(template, ALL, undefined);
    expect(template).toEqual({ spec: { domain: {} } });
  });
});

test.each([
  { guest: "1Gi", overcommitPercent: 0, want: undefined },
  { guest: "1Gi", overcommitPercent: 50, want: "512Mi" },
  { guest: "2Gi", overcommitPercent: 15, want: "1825361152" },
  { guest: "1Gi", overcommitPercent: 100, want: "0Mi" },
])("requests $want of memory for $guest with $overcommitPercent percent overcommit", (row) => {
  const { guest, overcommitPercent, want } = row;
  const its = { ...SMALL, memory: { guest, overcommitPercent } };
  const { resources } = withInstancetype(specOf({}), its, undefined).spec.domain;
  expect(resources?.requests?.["memory"]).toBe(want);
});

test("retains requests for other resources", () => {
  const its = { ...SMALL, memory: { guest: "1Gi", overcommitPercent: 50 } };
  const input = specOf({ resources: { requests: { "ephemeral-storage": "1Gi" } } });
  expect(withInstancetype(input, its, undefined).spec.domain.resources).toEqual({
    requests: { "ephemeral-storage": "1Gi", memory: "512Mi" },
  });
});

describe("a template with fields that the instancetype sets", () => {
  test.each<{ field: string; template: Template; its?: InstancetypeSpec }>([
    { field: "domain.cpu.sockets", template: specOf({ cpu: { sockets: 1 } }) },
    { field: "domain.cpu.cores", template: specOf({ cpu: { cores: 1 } }) },
    { field: "domain.cpu.threads", template: specOf({ cpu: { threads: 1 } }) },
    { field: "domain.memory.guest", template: specOf({ memory: { guest: "1Gi" } }) },
    {
      field: "domain.resources.requests.cpu",
      template: specOf({ resources: { requests: { cpu: 1 } } }),
    },
    {
      field: "domain.resources.limits.cpu",
      template: specOf({ resources: { limits: { cpu: 1 } } }),
    },
    {
      field: "domain.resources.requests.memory",
      template: specOf({ resources: { requests: { memory: 1 } } }),
    },
    {
      field: "domain.resources.limits.memory",
      template: specOf({ resources: { limits: { memory: 1 } } }),
    },
    { field: "nodeSelector", template: specOf({}, { nodeSelector: {} }), its: ALL },
    { field: "schedulerName", template: specOf({}, { schedulerName: "a" }), its: ALL },
    { field: "domain.cpu.model", template: specOf({ cpu: { model: "qemu64" } }), its: ALL },
    {
      field: "domain.cpu.dedicatedCpuPlacement",
      template: specOf({ cpu: { dedicatedCpuPlacement: true } }),
      its: ALL,
    },
    {
      field: "domain.cpu.isolateEmulatorThread",
      template: specOf({ cpu: { isolateEmulatorThread: true } }),
      its: ALL,
    },
    { field: "domain.cpu.numa", template: specOf({ cpu: { numa: {} } }), its: ALL },
    { field: "domain.cpu.realtime", template: specOf({ cpu: { realtime: {} } }), its: ALL },
    { field: "domain.memory.hugepages", template: specOf({ memory: { hugepages: {} } }), its: ALL },
    { field: "domain.memory.maxGuest", template: specOf({ memory: { maxGuest: 1 } }), its: ALL },
    { field: "domain.ioThreadsPolicy", template: specOf({ ioThreadsPolicy: "auto" }), its: ALL },
    { field: "domain.ioThreads", template: specOf({ ioThreads: {} }), its: ALL },
    { field: "domain.launchSecurity", template: specOf({ launchSecurity: {} }), its: ALL },
    { field: "domain.devices.gpus", template: specOf({ devices: { gpus: [{}] } }), its: ALL },
    {
      field: "domain.devices.hostDevices",
      template: specOf({ devices: { hostDevices: [{}] } }),
      its: ALL,
    },
  ])("$field is named, in KubeVirt's words", ({ field, template, its = SMALL }) => {
    expect(listConflictCauses(template, its, BASE)).toEqual([
      {
        reason: "FieldValueInvalid",
        field: `${BASE}.${field}`,
        message: `VM field(s) ${BASE}.${field} conflicts with selected instance type`,
      },
    ]);
  });

  test("is rejected with all fields at once", () => {
    const template = specOf({ cpu: { sockets: 1, cores: 2 }, memory: { guest: "1Gi" } });
    expect(listConflictCauses(template, SMALL, BASE).map(({ field }) => field)).toEqual([
      `${BASE}.domain.cpu.sockets`,
      `${BASE}.domain.cpu.cores`,
      `${BASE}.domain.memory.guest`,
    ]);
  });

  test.each([
    { name: "another value of an annotation", value: "large", want: ["annotations.size"] },
    { name: "the same value", value: "small", want: [] },
  ])("conflicts by an annotation: $name", ({ value, want }) => {
    const template = { ...specOf({}), metadata: { annotations: { size: value } } };
    expect(listConflictCauses(template, ALL, BASE).map(({ field }) => field)).toEqual(want);
  });

  test("does not conflict with empty values", () => {
    const template = specOf({
      cpu: { dedicatedCpuPlacement: false, model: "" },
      devices: { gpus: [] },
    });
    expect(listConflictCauses(template, ALL, BASE)).toEqual([]);
    const own = specOf({ cpu: { model: "qemu64" }, devices: { gpus: [{}] } });
    expect(listConflictCauses(own, SMALL, BASE)).toEqual([]);
  });
});
