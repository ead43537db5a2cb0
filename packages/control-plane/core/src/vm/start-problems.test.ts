// SPDX-License-Identifier: Apache-2.0
// Everything for which a VM or a VMI cannot be started, each with the path of its field.
import { networkConfigOf, type VmiSpec } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { withNics } from "../nics/nics.ts";
import { formatProblems, findVmiStartProblems, vmStartProblems } from "./start-problems.ts";

const NETWORK = networkConfigOf(undefined);
const FINE = aVmi().spec.domain;

function problemsOf(domain: VmiSpec["domain"]): readonly string[] {
  const vmi = { ...aVmi(), spec: { domain } };
  return findVmiStartProblems(vmi, NETWORK).map(({ field, message }) => `${field}: ${message}`);
}

describe("a VMI", () => {
  test("with a kernel and memory can be started", () => {
    expect(problemsOf(FINE)).toEqual([]);
    expect(problemsOf({ ...FINE, machine: { type: "pc-i440fx-7.2" } })).toEqual([]);
  });

  test.each([
    {
      name: "with an unsupported machine type",
      domain: { ...FINE, machine: { type: "s390x" } },
      want: ["spec.domain.machine.type: s390x is not supported, use q35 or pc"],
    },
    {
      name: "without a kernel",
      domain: { memory: { guest: "128Mi" } },
      want: [
        "spec.domain.devices.disks: is empty, and neither firmware.kernelBoot.container nor an interface with a bootOrder is set, so the guest has nothing to boot from",
      ],
    },
    {
      name: "with a kernel without an image",
      domain: { ...FINE, firmware: { kernelBoot: {} } },
      want: [
        "spec.domain.devices.disks: is empty, and neither firmware.kernelBoot.container nor an interface with a bootOrder is set, so the guest has nothing to boot from",
      ],
    },
    {
      name: "with an invalid pull policy for the kernel",
      domain: {
        ...FINE,
        firmware: { kernelBoot: { container: { image: "guest", imagePullPolicy: "always" } } },
      },
      want: [
        "spec.domain.firmware.kernelBoot.container.imagePullPolicy: has invalid value always; it can be Always, IfNotPresent, Never",
      ],
    },
    {
      name: "with a watchdog without a model",
      domain: { ...FINE, devices: { watchdog: { name: "w" } } },
      want: ["spec.domain.devices.watchdog.i6300esb: is required: there is no other model"],
    },
    {
      name: "with too little memory",
      domain: { ...FINE, memory: { guest: "1023Ki" } },
      want: ["spec.domain.memory.guest: must be 1Mi or more"],
    },
  ])("$name cannot be started", ({ domain, want }) => {
    expect(problemsOf(domain)).toEqual(want);
  });

  test("reports unreadable memory instead of too little memory", () => {
    const [problem, ...others] = problemsOf({ ...FINE, memory: { guest: "much" } });
    expect(problem).toMatch(/^spec\.domain\.memory\.guest: /);
    expect(problem).not.toContain("1Mi");
    expect(others).toEqual([]);
  });

  test("reports devices without an address on a known machine type", () => {
    const domain = {
      ...FINE,
      devices: { interfaces: [{ name: "a", pciAddress: "0000:ff:1f.7" }] },
    };
    expect(problemsOf(domain)[0]).toMatch(/^spec\.domain\.devices\.interfaces\[0\]\.pciAddress: /);
    expect(problemsOf({ ...domain, machine: { type: "s390x" } })).toHaveLength(1);
  });
});

test("reports problems by path in the VM's own specification, including device addresses", () => {
  const vm = aVm();
  const domain = {
    ...FINE,
    memory: { guest: "0" },
    devices: { interfaces: [{ name: "a", pciAddress: "0000:ff:1f.7" }] },
  };
  const spec = { ...vm.spec, template: { spec: { domain } } };
  const vmi = { ...aVmi(), spec: { domain } };
  const problems = vmStartProblems({ ...vm, spec }, vmi, NETWORK);
  expect(problems.map(({ field }) => field)).toEqual([
    "spec.template.spec.domain.memory.guest",
    "spec.template.spec.domain.devices.interfaces[0].pciAddress",
  ]);
});

test.each([
  { allowsHooks: false, said: '[{"image":"x"}]', at: "", says: "hooks of VMs are switched off" },
  { allowsHooks: true, said: '[{"args":[]}]', at: "[0].image", says: "is required unless" },
])("reports invalid hooks, in a VM's template and in a VMI ($says)", (row) => {
  const annotations = { "hooks.kubevirt.io/hookSidecars": row.said };
  const config = { ...NETWORK, allowsHooks: row.allowsHooks };
  const [vm, vmi] = [aVm(), aVmi()];
  const template = { ...vm.spec.template, metadata: { annotations } };
  const name = "annotations[hooks.kubevirt.io/hookSidecars]";
  const ofVm = vmStartProblems({ ...vm, spec: { ...vm.spec, template } }, vmi, config);
  expect(formatProblems(ofVm)).toContain(`spec.template.metadata.${name}${row.at}: ${row.says}`);
  const hooked = { ...vmi, metadata: { ...vmi.metadata, annotations } };
  const ofVmi = findVmiStartProblems(hooked, config);
  expect(ofVmi.map(({ field }) => field)).toEqual([`metadata.${name}${row.at}`]);
});

test("a Multus network in place of the pod network does not prevent a start", () => {
  const networks = [{ name: "own", multus: { networkName: "blue", default: true } }];
  const spec = withNics(aVmi().spec, networks, [{ name: "own", masquerade: {} }]);
  const vm = { ...aVm(), spec: { template: { spec } } };
  expect(findVmiStartProblems({ ...aVmi(), spec }, NETWORK)).toEqual([]);
  expect(vmStartProblems(vm, { ...aVmi(), spec }, NETWORK)).toEqual([]);
});

test("joins all problems into one text", () => {
  const problems = [
    { field: "a", message: "is odd" },
    { field: "b.c", message: "is even" },
  ];
  expect(formatProblems(problems)).toBe("a: is odd; b.c: is even");
  expect(formatProblems([])).toBe("");
});
