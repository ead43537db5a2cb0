// SPDX-License-Identifier: Apache-2.0
// What a guest starts with. Source: KubeVirt api/core/v1 schema.go, types Firmware and KernelBoot.
import { Type } from "../../fields/schema.ts";
import { FIRMWARE_FIELDS } from "../../fields/guest-fields.ts";

const text = (description: string) => Type.Optional(Type.String({ description }));
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));

const KernelBootSchema = Type.Object(
  {
    kernelArgs: text("The kernel's command line."),
    container: Type.Optional(
      Type.Object(
        {
          image: Type.String({ description: "Image with kernel and initrd." }),
          kernelPath: text("Path of the kernel in the image; vmlinuz when absent."),
          initrdPath: text("Path of the initrd in the image."),
          imagePullPolicy: text(
            "When the image is pulled: Always, IfNotPresent or Never; IfNotPresent when absent.",
          ),
          imagePullSecret: text("Secret of the VM's namespace for pulling the image."),
        },
        { description: "Where kernel and initrd are." },
      ),
    ),
  },
  { description: "The guest is booted from a kernel and an initrd." },
);

/** EFI and how it boots. */
export const EfiSchema = Type.Object(
  {
    persistent: Type.Optional(
      Type.Boolean({ description: "Variables are kept over restarts, on a claim of the VM." }),
    ),
    secureBoot: flag("Only signed code is booted; true when absent. It needs features.smm."),
  },
  { description: "EFI firmware." },
);

const BootloaderSchema = Type.Object(
  {
    bios: Type.Optional(
      Type.Object(
        { useSerial: flag("Firmware speaks on the serial console.") },
        { description: "BIOS firmware." },
      ),
    ),
    efi: Type.Optional(EfiSchema),
  },
  { description: "Firmware of the guest; BIOS when absent." },
);

/** `spec.domain.firmware`. */
export const FirmwareSchema = Type.Object(
  {
    kernelBoot: Type.Optional(KernelBootSchema),
    bootloader: Type.Optional(BootloaderSchema),
    serial: text("Serial number of the machine."),
    uuid: text("UUID of the machine; made from namespace and name when absent."),
    ...FIRMWARE_FIELDS,
  },
  { description: "What the guest starts with." },
);
