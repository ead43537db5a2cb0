// SPDX-License-Identifier: Apache-2.0
// Objects beyond a limit.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  type Iface,
  type VirtualMachine,
  type VmiSpec,
} from "@patchbay/api";
import { createFakeStore } from "@patchbay/kube/testing";
import { describe, expect, test } from "vitest";
import { admissionRequest, BLUE, causesOf, POD, vmiWith, vmWith } from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { mutate } from "./mutate.ts";
import type { AdmissionRequest } from "./review.ts";
import { validate } from "./validate.ts";

/** A VM of many NICs with one MAC, on as many networks, which are listed in reverse. */
function withNics(count: number): VirtualMachine {
  const names = Array.from({ length: count }, (_unused, index) => `n${String(index)}`);
  const networks = names.map((name) => ({ name, multus: { networkName: name } })).toReversed();
  const interfaces: readonly Iface[] = names.map((name) => ({
    name,
    bridge: {},
    macAddress: "02:00:00:00:00:01",
  }));
  const spec: VmiSpec = { domain: { devices: { interfaces: [...interfaces] } }, networks };
  return { ...vmWith({}), spec: { template: { spec } } };
}

const deps = depsOn(createFakeStore());
const FIELD = "spec.template.spec.domain.devices.interfaces";

describe("a VM with 3,500 interfaces", () => {
  const request = admissionRequest(withNics(3500));

  test.each([
    { name: "mutation", webhook: mutate },
    { name: "validation", webhook: validate },
  ])("is refused at $name with one cause, at once", async ({ webhook }) => {
    const before = process.threadCpuUsage();
    const verdict = await webhook(deps, request);
    const used = process.threadCpuUsage(before);
    expect(causesOf(verdict)).toEqual([`FieldValueInvalid ${FIELD}`]);
    expect((used.user + used.system) / 1000).toBeLessThan(50);
  });

  test("that is stored can be deleted and labelled", async () => {
    const stored = withNics(100);
    const labelled = { ...stored, metadata: { ...stored.metadata, labels: { a: "b" } } };
    expect(await validate(deps, admissionRequest(labelled, stored))).toMatchObject({
      allowed: true,
    });
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    const deleting = { ...withNics(99), metadata: { ...stored.metadata, deletionTimestamp } };
    expect(await validate(deps, admissionRequest(deleting, stored))).toMatchObject({
      allowed: true,
    });
  });
});

test("a VMI's own networks are limited", async () => {
  const vmi = vmiWith("lone", {});
  const networks = [POD, ...Array.from({ length: 64 }, () => BLUE)];
  const verdict = await validate(
    deps,
    admissionRequest({ ...vmi, spec: { ...vmi.spec, networks } }),
  );
  expect(causesOf(verdict)).toEqual(["FieldValueInvalid spec.networks"]);
});

test("annotations of a template are limited to 256 KiB", async () => {
  const vm = vmWith({});
  const metadata = { annotations: { a: "x".repeat(1_400_000) } };
  const template = { ...vm.spec.template, metadata };
  const request = admissionRequest({ ...vm, spec: { ...vm.spec, template } });
  expect(causesOf(await validate(deps, request))).toEqual([
    "FieldValueInvalid spec.template.metadata.annotations",
  ]);
});

describe("a network definition", () => {
  const asDefinition = (config: string): AdmissionRequest => {
    const { kind } = NETWORK_ATTACHMENT_DEFINITIONS;
    const object = {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind,
      metadata: { name: "net" },
      spec: { config },
    };
    return { ...admissionRequest(vmWith({})), kind, object };
  };
  const plugin = { type: "bridge" };
  const deep = `${'{"a":'.repeat(17)}1${"}".repeat(17)}`;

  test.each([
    {
      name: "of 500,000 characters",
      config: JSON.stringify({ type: "bridge", x: "x".repeat(500_000) }),
      want: "spec.config",
    },
    {
      name: "of 17 plugins",
      config: JSON.stringify({ plugins: Array.from({ length: 17 }, () => plugin) }),
      want: "spec.config.plugins",
    },
    { name: "of 17 levels", config: deep, want: "spec.config" },
  ])("$name is refused", async ({ config, want }) => {
    expect(causesOf(await validate(deps, asDefinition(config)))).toEqual([
      `FieldValueInvalid ${want}`,
    ]);
  });

  test("that is invalid in another way is stored with a warning", async () => {
    expect(await validate(deps, asDefinition("{}"))).toMatchObject({ allowed: true });
  });
});
