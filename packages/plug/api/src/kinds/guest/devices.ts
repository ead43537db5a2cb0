// SPDX-License-Identifier: Apache-2.0
// Devices of the guest that are neither NICs nor disks. Source: KubeVirt api/core/v1 schema.go, type Devices.
import { Type } from "../../fields/schema.ts";
import { object, oneOf, onlyBuilt, text as anyText, unbuilt } from "../../fields/notation.ts";

const text = (description: string) => Type.Optional(Type.String({ description }));
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));

const InputSchema = Type.Object(
  {
    bus: text("usb or virtio; usb when absent."),
    name: Type.String({ description: "Name." }),
    type: Type.String({ description: "tablet." }),
  },
  { description: "One device." },
);

const WatchdogSchema = Type.Object(
  {
    name: Type.String({ description: "Name." }),
    i6300esb: Type.Optional(
      Type.Object(
        { action: text("What it does: reset, poweroff or shutdown; reset when absent.") },
        { description: "A PCI watchdog of Intel's." },
      ),
    ),
    diag288: unbuilt(
      object("A watchdog of IBM Z.", { action: anyText("reset, poweroff or shutdown.") }),
    ),
  },
  { description: "A watchdog, which acts when the guest no longer tells it that it is well." },
);

const TpmSchema = Type.Object(
  {
    enabled: flag("Whether it is there; true when absent."),
    persistent: Type.Optional(
      Type.Boolean({ description: "What it holds is kept over restarts, on a claim of the VM." }),
    ),
  },
  { description: "A TPM 2.0." },
);

/** Of `spec.domain.devices`. */
export const GUEST_DEVICES = {
  inputs: Type.Optional(Type.Array(InputSchema, { description: "Input devices." })),
  rng: Type.Optional(Type.Object({}, { description: "A source of randomness for the guest." })),
  tpm: Type.Optional(TpmSchema),
  video: Type.Optional(
    Type.Object(
      {
        type: Type.Optional(
          Type.String({
            description: "Model: vga, bochs, cirrus or virtio.",
            ...onlyBuilt(
              oneOf("", "vga", "bochs", "cirrus", "virtio"),
              "use vga, bochs, cirrus or virtio",
            ),
          }),
        ),
      },
      { description: "The graphics card; vga when absent." },
    ),
  ),
  watchdog: Type.Optional(WatchdogSchema),
  autoattachGraphicsDevice: flag(
    "A graphics device, whose screen is seen by VNC; true when absent.",
  ),
  autoattachInputDevice: flag("A tablet where no input device is declared; false when absent."),
  autoattachPodInterface: flag(
    "An interface on the pod's network, where none is declared when the VM is created; true when absent.",
  ),
  autoattachSerialConsole: flag("A serial console; true when absent."),
  logSerialConsole: flag(
    "What the guest prints on its serial console is the log of the launcher's container guest-console-log; as the cluster says when absent.",
  ),
};

/** `spec.domain.chassis`. */
export const ChassisSchema = Type.Object(
  {
    asset: text("Asset tag."),
    manufacturer: text("Manufacturer."),
    serial: text("Serial number."),
    sku: text("Stock keeping unit."),
    version: text("Version."),
  },
  { description: "What the guest reads of its chassis." },
);
