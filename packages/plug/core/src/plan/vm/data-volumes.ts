// SPDX-License-Identifier: Apache-2.0
// The DataVolumes that come with a VM. CDI makes their claims; the VM's disks are on those.
import {
  apiVersionOf,
  DATA_VOLUMES,
  names,
  type DataVolume,
  type VirtualMachine,
} from "@patchbay/api";

/** What a VM's templates ask for, owned by the VM: they go with it. Source: KubeVirt spec.dataVolumeTemplates. */
export function dataVolumesOf(vm: VirtualMachine): readonly DataVolume[] {
  const { metadata, spec } = vm;
  return (spec.dataVolumeTemplates ?? []).map((template) => ({
    apiVersion: apiVersionOf(DATA_VOLUMES),
    kind: DATA_VOLUMES.kind,
    metadata: {
      name: template.metadata?.name ?? "",
      namespace: metadata.namespace ?? "",
      labels: { ...template.metadata?.labels, [names.CREATED_BY_LABEL]: metadata.uid ?? "" },
      annotations: { ...template.metadata?.annotations },
      ownerReferences: [
        {
          apiVersion: vm.apiVersion,
          kind: vm.kind,
          name: metadata.name,
          uid: metadata.uid ?? "",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: template.spec,
  }));
}
