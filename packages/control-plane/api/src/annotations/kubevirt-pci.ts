// SPDX-License-Identifier: Apache-2.0
// KubeVirt's annotations for the PCI layout, which manifests written for KubeVirt may contain. Source: KubeVirt api/core/v1
// types.go, PciTopologyVersionAnnotation and PciInterfaceSlotCountAnnotation.
import type { Cause, ObjectMeta } from "../kinds/kubernetes/meta.ts";
import * as names from "../names.ts";
import { PCIE_ROOT_PORTS_MAX } from "../values/pci.ts";

const VERSIONS: readonly string[] = ["v2", "v3"];

export interface KubeVirtPci {
  /** Number of PCIe ports for NICs, used or free. The ports of other devices follow. If unset, KubeVirt's default applies. */
  readonly slotCount?: number;
}

function parseSlotCount(text: string): number | undefined {
  const count = /^\d{1,3}$/.test(text) ? Number(text) : undefined;
  return count !== undefined && count <= PCIE_ROOT_PORTS_MAX ? count : undefined;
}

function readBoth({ annotations = {} }: Pick<ObjectMeta, "annotations">): {
  readonly version: string | undefined;
  readonly slots: string | undefined;
} {
  return {
    version: annotations[names.PCI_TOPOLOGY_VERSION_ANNOTATION],
    slots: annotations[names.PCI_SLOT_COUNT_ANNOTATION],
  };
}

/** Parses KubeVirt's PCI annotations. Returns undefined if both are missing, or if one is invalid. */
export function parseKubeVirtPci(
  metadata: Pick<ObjectMeta, "annotations">,
): KubeVirtPci | undefined {
  const { version, slots } = readBoth(metadata);
  if (version === undefined && slots === undefined) return undefined;
  if (version !== undefined && !VERSIONS.includes(version)) return undefined;
  if (slots === undefined) return {};
  const slotCount = parseSlotCount(slots);
  return slotCount === undefined ? undefined : { slotCount };
}

export function validateKubeVirtPci(
  metadata: Pick<ObjectMeta, "annotations"> | undefined,
  base: string,
): readonly Cause[] {
  const { version, slots } = readBoth(metadata ?? {});
  const toCause = (name: string, message: string): Cause => ({
    reason: "FieldValueInvalid",
    field: `${base}.annotations[${name}]`,
    message,
  });
  const versionCauses =
    version === undefined || VERSIONS.includes(version)
      ? []
      : [
          toCause(
            names.PCI_TOPOLOGY_VERSION_ANNOTATION,
            `"${version}" is not a version of KubeVirt's PCI layout: use ${VERSIONS.join(" or ")}, or delete the annotation for Patchbay's own layout`,
          ),
        ];
  const slotCauses =
    slots === undefined || parseSlotCount(slots) !== undefined
      ? []
      : [
          toCause(
            names.PCI_SLOT_COUNT_ANNOTATION,
            `"${slots}" is not a number of PCIe ports: use a whole number from 0 to ${String(PCIE_ROOT_PORTS_MAX)}`,
          ),
        ];
  return [...versionCauses, ...slotCauses];
}
