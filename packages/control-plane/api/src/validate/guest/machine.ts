// SPDX-License-Identifier: Apache-2.0
// Rules for vCPUs, boot order, resources and firmware. Source: KubeVirt validateCPUHotplug, validateBootOrder,
// validateFirmware, validateKernelBoot, vmi-create-admitter.
import { causeIf, type Rule, diskPath, ifacePath, type ValidatedSpec } from "../rule.ts";
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { isAbsent } from "../../kinds/network.ts";
import { firstByKey } from "../../values/memoize.ts";
import { parseQuantity } from "../../values/quantity.ts";
import { isFeatureOff } from "../../fields/notation.ts";
import { isJsonObject } from "../../values/json.ts";

/** Maximum number of vCPUs. More vCPUs require an IOMMU with extended interrupt mode. Source: libvirt QEMU_MAX_VCPUS_WITHOUT_EIM. */
const VCPUS_MAX = 255;

const vcpusAreInLimit: Rule = ({ spec, base }) => {
  const { cores = 1, sockets = 1, threads = 1 } = spec.domain.cpu ?? {};
  const vcpus = cores * sockets * threads;
  const field = `${base}.domain.cpu`;
  return causeIf(vcpus > VCPUS_MAX, {
    reason: "FieldValueInvalid",
    field,
    message: `${field} gives the guest ${String(vcpus)} processors; it can have ${String(VCPUS_MAX)}`,
  });
};

const socketsAreInLimit: Rule = ({ spec, base }) => {
  const { sockets = 1, maxSockets } = spec.domain.cpu ?? {};
  return causeIf(typeof maxSockets === "number" && maxSockets > 0 && sockets > maxSockets, {
    reason: "FieldValueInvalid",
    field: `${base}.domain.cpu.sockets`,
    message: "Number of sockets in CPU topology is greater than the maximum sockets allowed",
  });
};

export const CPU_RULES: readonly Rule[] = [vcpusAreInLimit, socketsAreInLimit];

interface Bootable {
  readonly path: string;
  readonly order: number;
}

function listBootables({ disks, ifaces, base }: ValidatedSpec): readonly Bootable[] {
  const toBootable = (entry: { readonly bootOrder?: number }, path: string): readonly Bootable[] =>
    entry.bootOrder === undefined ? [] : [{ path, order: entry.bootOrder }];
  return [
    ...disks.flatMap((disk, index) => toBootable(disk, diskPath(base, index))),
    ...ifaces.flatMap((iface, index) =>
      isAbsent(iface) ? [] : toBootable(iface, ifacePath(base, index)),
    ),
  ];
}

/** Largest boot index of a device. Source: QEMU property bootindex, an int32. */
const BOOT_ORDER_MAX = 2_147_483_647;

const orderIsInLimit: Rule = (spec) =>
  listBootables(spec)
    .filter(({ order }) => order > BOOT_ORDER_MAX)
    .map(({ path }) => ({
      reason: "FieldValueInvalid",
      field: `${path}.bootOrder`,
      message: `${path} must have a boot order <= ${String(BOOT_ORDER_MAX)}, because QEMU starts no guest with a larger one`,
    }));

const orderStartsAtOne: Rule = (spec) =>
  listBootables(spec)
    .filter(({ order }) => order < 1)
    .map(({ path }) => ({
      reason: "FieldValueInvalid",
      field: `${path}.bootOrder`,
      message: `${path} must have a boot order > 0, if supplied`,
    }));

const orderIsUnique: Rule = (spec) => {
  const bootables = listBootables(spec);
  const bootableByOrder = firstByKey(bootables, ({ order }) => order);
  return bootables.flatMap((bootable): readonly Cause[] => {
    const { path, order } = bootable;
    if (bootableByOrder.get(order) === bootable) return [];
    const field = `${path}.bootOrder`;
    const message = `Boot order for ${field} already set for a different device.`;
    return [{ reason: "FieldValueInvalid", field, message }];
  });
};

export const BOOT_ORDER_RULES: readonly Rule[] = [orderStartsAtOne, orderIsInLimit, orderIsUnique];

/** Smallest memory request in bytes. A smaller value most likely lacks its unit. Source: KubeVirt validateMemoryRequestsNegativeOrNull. */
const MEMORY_MIN_BYTES = 1e6;

interface Amount {
  readonly field: string;
  readonly text: string;
  /** Value of the quantity; 0 if the quantity is unset or malformed. */
  readonly value: number;
}

function parseAmount(field: string, quantity: unknown): Amount {
  const value = quantity === undefined ? 0 : (parseQuantity(quantity) ?? 0);
  return { field, text: String(quantity), value };
}

function listAmounts({ spec, base }: ValidatedSpec, resource: "cpu" | "memory") {
  const path = `${base}.domain.resources`;
  // The cast is safe, because the schema allows only quantities in requests and limits.
  const { requests, limits } = (spec.domain.resources ?? {}) as Readonly<
    Record<"requests" | "limits", Readonly<Record<string, unknown>> | undefined>
  >;
  return {
    request: parseAmount(`${path}.requests.${resource}`, requests?.[resource]),
    limit: parseAmount(`${path}.limits.${resource}`, limits?.[resource]),
  };
}

function listLimitCauses(request: Amount, limit: Amount): readonly Cause[] {
  return causeIf(limit.value > 0 && request.value > limit.value, {
    reason: "FieldValueInvalid",
    field: request.field,
    message: `${request.field} '${request.text}' is greater than ${limit.field} '${limit.text}'`,
  });
}

const cpuIsInLimit: Rule = (validated) => {
  const { request, limit } = listAmounts(validated, "cpu");
  return listLimitCauses(request, limit);
};

const memoryIsInLimit: Rule = (validated) => {
  const { request, limit } = listAmounts(validated, "memory");
  const isTooSmall = request.value > 0 && request.value < MEMORY_MIN_BYTES;
  return [
    ...causeIf(isTooSmall, {
      reason: "FieldValueInvalid",
      field: request.field,
      message: `${request.field} '${request.text}': must be greater than or equal to 1M.`,
    }),
    ...listLimitCauses(request, limit),
  ];
};

const guestIsInLimit: Rule = (validated) => {
  const { limit } = listAmounts(validated, "memory");
  const field = `${validated.base}.domain.memory.guest`;
  const guest = parseAmount(field, validated.spec.domain.memory?.guest);
  return causeIf(limit.value > 0 && guest.value > limit.value, {
    reason: "FieldValueInvalid",
    field,
    message: `${field} '${guest.text}' must be equal to or less than the memory limit ${limit.field} '${limit.text}'`,
  });
};

export const RESOURCE_RULES: readonly Rule[] = [memoryIsInLimit, guestIsInLimit, cpuIsInLimit];

/** Maximum length of a serial number, in characters. Source: KubeVirt maxStrLen. */
const SERIAL_MAX = 256;
const SERIAL_SYNTAX = /^[A-Za-z0-9_.+-]+$/;
/** Source: RFC 9562 section 4. */
const UUID_SYNTAX = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

type Firmware = NonNullable<ValidatedSpec["spec"]["domain"]["firmware"]>;

function readFirmware({ spec }: ValidatedSpec): Firmware {
  return spec.domain.firmware ?? {};
}

const oneBootLoader: Rule = (validated) => {
  const { bios, efi } = readFirmware(validated).bootloader ?? {};
  const field = `${validated.base}.domain.firmware.bootloader`;
  return causeIf(bios !== undefined && efi !== undefined, {
    reason: "FieldValueInvalid",
    field,
    message: `${field} has both EFI and BIOS configured, but they are mutually exclusive.`,
  });
};

/** Requires SMM for secure boot, because SMM protects the firmware's variables from the guest. */
const secureBootHasSmm: Rule = (validated) => {
  const efi: unknown = readFirmware(validated).bootloader?.efi;
  const isSecure = isJsonObject(efi) && efi["secureBoot"] !== false;
  const smm: unknown = validated.spec.domain.features?.smm;
  const field = `${validated.base}.domain`;
  return causeIf(isSecure && (!isJsonObject(smm) || isFeatureOff(smm)), {
    reason: "FieldValueInvalid",
    field,
    message: `${field} has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled.`,
  });
};

const serialIsValid: Rule = (validated) => {
  const { serial } = readFirmware(validated);
  const field = `${validated.base}.domain.firmware.serial`;
  if (typeof serial !== "string" || serial === "") return [];
  return [
    ...causeIf(serial.length > SERIAL_MAX, {
      reason: "FieldValueInvalid",
      field,
      message: `${field} must be less than or equal to ${String(SERIAL_MAX)} in length, if specified`,
    }),
    ...causeIf(!SERIAL_SYNTAX.test(serial), {
      reason: "FieldValueInvalid",
      field,
      message: `${field} must be made up of the following characters [A-Za-z0-9_.+-], if specified`,
    }),
  ];
};

const uuidIsValid: Rule = (validated) => {
  const { uuid } = readFirmware(validated);
  const field = `${validated.base}.domain.firmware.uuid`;
  return causeIf(typeof uuid === "string" && uuid !== "" && !UUID_SYNTAX.test(uuid), {
    reason: "FieldValueInvalid",
    field,
    message: `${field} must be a UUID, for example 5d307ca9-b3ef-428c-8861-06e72d69f223`,
  });
};

const kernelHasImage: Rule = (validated) => {
  const { kernelBoot } = readFirmware(validated);
  const { container, kernelArgs = "" } = kernelBoot ?? {};
  const path = `${validated.base}.domain.firmware.kernelBoot`;
  return [
    ...causeIf(container?.image === "", {
      reason: "FieldValueRequired",
      field: `${path}.container.image`,
      message: `${path}.container must be defined with an image`,
    }),
    ...causeIf(container === undefined && kernelArgs !== "", {
      reason: "FieldValueInvalid",
      field: `${path}.kernelArgs`,
      message: "kernel arguments cannot be provided without an external kernel",
    }),
  ];
};

export const FIRMWARE_RULES: readonly Rule[] = [
  oneBootLoader,
  kernelHasImage,
  secureBootHasSmm,
  serialIsValid,
  uuidIsValid,
];
