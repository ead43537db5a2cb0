// SPDX-License-Identifier: Apache-2.0
// What a guest may be, apart from its networks: the rules in the order in which causes are told.
import type { Rule } from "../rule.ts";
import { unreadableQuantities } from "../quantities.ts";
import { BLOCK_SIZE_RULES } from "./disks/block-size.ts";
import { BOOT_ORDER_RULES } from "./boot-order.ts";
import { CLOUD_INIT_RULES } from "./disks/cloud-init.ts";
import { CPU_RULES } from "./cpu.ts";
import { DISK_RULES } from "./disks/disks.ts";
import { FIRMWARE_RULES } from "./firmware.ts";
import { POD_RULES } from "./pod.ts";
import { PROBE_RULES } from "./probes.ts";
import { RESOURCE_RULES } from "./resources.ts";
import { SHARING_RULES } from "./disks/sharing.ts";
import { VOLUME_RULES } from "./disks/volumes.ts";
import { wordsAreKnown } from "./words.ts";

const quantitiesAreReadable: Rule = ({ spec, base }) =>
  unreadableQuantities(spec, base).map((problem) => ({ reason: "FieldValueInvalid", ...problem }));

/** Source: KubeVirt pkg/virt-api/webhooks/validating-webhook/admitters, pkg/storage/admitters. */
export const GUEST_RULES: readonly Rule[] = [
  ...POD_RULES,
  ...PROBE_RULES,
  quantitiesAreReadable,
  ...RESOURCE_RULES,
  ...CPU_RULES,
  ...BOOT_ORDER_RULES,
  ...DISK_RULES,
  ...BLOCK_SIZE_RULES,
  ...SHARING_RULES,
  ...FIRMWARE_RULES,
  ...VOLUME_RULES,
  ...CLOUD_INIT_RULES,
  wordsAreKnown,
];
