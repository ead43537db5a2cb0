// SPDX-License-Identifier: Apache-2.0
// Which DataVolumes a VM may bring along. Source: KubeVirt pkg/storage/admitters/data-volume-template.go.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import type { VmSpec } from "../kinds/vm.ts";

/** Whether a volume of the VM is of that DataVolume, or of the claim that it makes. */
function isUsed({ template }: VmSpec, name: string): boolean {
  return (template.spec.volumes ?? []).some(
    ({ dataVolume, persistentVolumeClaim }) =>
      dataVolume?.name === name || persistentVolumeClaim?.claimName === name,
  );
}

/** What CDI is to make the volume as: one of two forms. */
function targetFault(spec: Readonly<Record<string, unknown>>): string | undefined {
  const targets = ["pvc", "storage"].filter((key) => spec[key] !== undefined).length;
  if (targets === 0) return "Missing Data volume PVC or Storage";
  return targets === 1
    ? undefined
    : "Duplicate storage definition, both target storage and target pvc defined";
}

function templateCauses(spec: VmSpec, index: number): readonly Cause[] {
  const path = `spec.dataVolumeTemplates[${String(index)}]`;
  const template = spec.dataVolumeTemplates?.[index];
  const name = template?.metadata?.name ?? "";
  if (name === "") {
    const field = `${path}.name`;
    const message = `'name' field must not be empty for DataVolumeTemplate entry ${field}.`;
    return [{ reason: "FieldValueRequired", field, message }];
  }
  const fault = targetFault(template?.spec ?? {});
  if (fault !== undefined) {
    return [{ reason: "FieldValueInvalid", field: `${path}.spec`, message: fault }];
  }
  if (isUsed(spec, name)) return [];
  const message = `DataVolumeTemplate entry ${path} must be referenced in the VMI template's 'volumes' list`;
  return [{ reason: "FieldValueRequired", field: path, message }];
}

/** Causes against the DataVolumes of a VM, of each the first. */
export function dataVolumeCauses(spec: VmSpec): readonly Cause[] {
  return (spec.dataVolumeTemplates ?? []).flatMap((_template, index) =>
    templateCauses(spec, index),
  );
}
