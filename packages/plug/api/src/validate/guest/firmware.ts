// SPDX-License-Identifier: Apache-2.0
// What a guest may start with. Source: KubeVirt validateDomainSpec, validateFirmware, validateKernelBoot.
import { isOff } from "../../fields/notation.ts";
import { isJsonObject } from "../../values/json.ts";
import { causeIf, type JudgedSpec, type Rule } from "../rule.ts";

/** Characters of a serial number. Source: KubeVirt maxStrLen. */
const SERIAL_MAX = 256;
const SERIAL = /^[A-Za-z0-9_.+-]+$/;
/** Source: RFC 9562 section 4. */
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

type Firmware = NonNullable<JudgedSpec["spec"]["domain"]["firmware"]>;

function firmwareOf({ spec }: JudgedSpec): Firmware {
  return spec.domain.firmware ?? {};
}

const oneBootLoader: Rule = (judged) => {
  const { bios, efi } = firmwareOf(judged).bootloader ?? {};
  const field = `${judged.base}.domain.firmware.bootloader`;
  return causeIf(bios !== undefined && efi !== undefined, {
    reason: "FieldValueInvalid",
    field,
    message: `${field} has both EFI and BIOS configured, but they are mutually exclusive.`,
  });
};

/** What protects the firmware's variables from the guest. */
const secureBootHasSmm: Rule = (judged) => {
  const efi: unknown = firmwareOf(judged).bootloader?.efi;
  const isSecure = isJsonObject(efi) && efi["secureBoot"] !== false;
  const smm: unknown = judged.spec.domain.features?.smm;
  const field = `${judged.base}.domain`;
  return causeIf(isSecure && (!isJsonObject(smm) || isOff(smm)), {
    reason: "FieldValueInvalid",
    field,
    message: `${field} has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled.`,
  });
};

const serialIsValid: Rule = (judged) => {
  const { serial } = firmwareOf(judged);
  const field = `${judged.base}.domain.firmware.serial`;
  if (typeof serial !== "string" || serial === "") return [];
  return [
    ...causeIf(serial.length > SERIAL_MAX, {
      reason: "FieldValueInvalid",
      field,
      message: `${field} must be less than or equal to ${String(SERIAL_MAX)} in length, if specified`,
    }),
    ...causeIf(!SERIAL.test(serial), {
      reason: "FieldValueInvalid",
      field,
      message: `${field} must be made up of the following characters [A-Za-z0-9_.+-], if specified`,
    }),
  ];
};

const uuidIsOne: Rule = (judged) => {
  const { uuid } = firmwareOf(judged);
  const field = `${judged.base}.domain.firmware.uuid`;
  return causeIf(typeof uuid === "string" && uuid !== "" && !UUID.test(uuid), {
    reason: "FieldValueInvalid",
    field,
    message: `${field} must be a UUID, for example 5d307ca9-b3ef-428c-8861-06e72d69f223`,
  });
};

const kernelHasImage: Rule = (judged) => {
  const { kernelBoot } = firmwareOf(judged);
  const { container, kernelArgs = "" } = kernelBoot ?? {};
  const path = `${judged.base}.domain.firmware.kernelBoot`;
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

/** Judges boot loader, kernel and identity. */
export const FIRMWARE_RULES: readonly Rule[] = [
  oneBootLoader,
  kernelHasImage,
  secureBootHasSmm,
  serialIsValid,
  uuidIsOne,
];
