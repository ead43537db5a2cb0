// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseKubeVirtPci, validateKubeVirtPci, type KubeVirtPci } from "./kubevirt-pci.ts";

const VERSION = "kubevirt.io/pci-topology-version";
const SLOTS = "kubevirt.io/pci-interface-slot-count";

test.each<{
  name: string;
  annotations: Readonly<Record<string, string>>;
  want: KubeVirtPci | undefined;
}>([
  { name: "no annotation", annotations: {}, want: undefined },
  { name: "version 3", annotations: { [VERSION]: "v3" }, want: {} },
  { name: "version 2 without a count", annotations: { [VERSION]: "v2" }, want: {} },
  {
    name: "version 2 with its count",
    annotations: { [VERSION]: "v2", [SLOTS]: "11" },
    want: { slotCount: 11 },
  },
  // KubeVirt reads the count regardless of the version.
  { name: "a count alone", annotations: { [SLOTS]: "0" }, want: { slotCount: 0 } },
  { name: "the maximum", annotations: { [SLOTS]: "128" }, want: { slotCount: 128 } },
])("accepts $name", ({ annotations, want }) => {
  expect(parseKubeVirtPci({ annotations })).toEqual(want);
  expect(validateKubeVirtPci({ annotations }, "metadata")).toEqual([]);
});

test.each([
  { [SLOTS]: "" },
  { [SLOTS]: "-1" },
  { [SLOTS]: "1.5" },
  { [SLOTS]: "0x10" },
  { [SLOTS]: " 4" },
  { [SLOTS]: "129" },
  { [SLOTS]: "99999999999" },
  { [SLOTS]: "many", [VERSION]: "v2" },
])("rejects %j", (annotations) => {
  expect(parseKubeVirtPci({ annotations })).toBeUndefined();
  expect(validateKubeVirtPci({ annotations }, "spec.template.metadata")).toEqual([
    {
      reason: "FieldValueInvalid",
      field: `spec.template.metadata.annotations[${SLOTS}]`,
      message: `"${annotations[SLOTS]}" is not a number of PCIe ports: use a whole number from 0 to 128`,
    },
  ]);
});

test.each(["", "v1", "3", "V3"])("rejects version '%s'", (version) => {
  const annotations = { [VERSION]: version };
  expect(parseKubeVirtPci({ annotations })).toBeUndefined();
  expect(validateKubeVirtPci({ annotations }, "metadata")).toEqual([
    {
      reason: "FieldValueInvalid",
      field: `metadata.annotations[${VERSION}]`,
      message: `"${version}" is not a version of KubeVirt's PCI layout: use v2 or v3, or delete the annotation for Patchbay's own layout`,
    },
  ]);
});

test("reports both annotations", () => {
  const annotations = { [VERSION]: "v9", [SLOTS]: "x" };
  expect(validateKubeVirtPci({ annotations }, "metadata")).toHaveLength(2);
  expect(validateKubeVirtPci(undefined, "metadata")).toEqual([]);
});
