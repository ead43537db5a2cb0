// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { VmSpec } from "../kinds/vm.ts";
import { validateVmChange } from "./change.ts";

const PATH = "spec.dataVolumeTemplates[0]";
const PVC = { pvc: {}, source: { blank: {} } };

function vmWith(template: object, volume: object = { dataVolume: { name: "root" } }): VmSpec {
  const spec = {
    template: { spec: { domain: {}, volumes: [{ name: "root", ...volume }] } },
    dataVolumeTemplates: [template],
  };
  // Rows hold what a client may send, which is wider than the types.
  return spec as unknown as VmSpec;
}

const NAMED = { metadata: { name: "root" } };

test.each([
  { name: "a volume uses it", vm: vmWith({ ...NAMED, spec: PVC }), want: [] },
  {
    name: "a volume uses its claim",
    vm: vmWith(
      { ...NAMED, spec: { storage: {} } },
      { persistentVolumeClaim: { claimName: "root" } },
    ),
    want: [],
  },
  {
    name: "it has no name",
    vm: vmWith({ spec: PVC }),
    want: [
      [
        "FieldValueRequired",
        `${PATH}.name`,
        `'name' field must not be empty for DataVolumeTemplate entry ${PATH}.name.`,
      ],
    ],
  },
  {
    name: "nobody uses it",
    vm: vmWith({ metadata: { name: "other" }, spec: PVC }),
    want: [
      [
        "FieldValueRequired",
        PATH,
        `DataVolumeTemplate entry ${PATH} must be referenced in the VMI template's 'volumes' list`,
      ],
    ],
  },
  {
    name: "it does not say as what it is made",
    vm: vmWith({ ...NAMED, spec: { source: { blank: {} } } }),
    want: [["FieldValueInvalid", `${PATH}.spec`, "Missing Data volume PVC or Storage"]],
  },
  {
    name: "it says so twice",
    vm: vmWith({ ...NAMED, spec: { pvc: {}, storage: {} } }),
    want: [
      [
        "FieldValueInvalid",
        `${PATH}.spec`,
        "Duplicate storage definition, both target storage and target pvc defined",
      ],
    ],
  },
])("a DataVolume of a VM: $name", ({ vm, want }) => {
  const causes = validateVmChange(undefined, vm);
  expect(causes.map(({ reason, field, message }) => [reason, field, message])).toEqual(want);
  expect(validateVmChange(vm, vm)).toEqual([]);
});
