// SPDX-License-Identifier: Apache-2.0
// PCIe ports and ACPI indexes of NICs.
import { PCIE_ROOT_PORTS_MAX } from "../values/pcie-root-ports.ts";
import { causeIf, forEachIface, ifacePath, type Rule } from "./rule.ts";

const portsInBounds: Rule = ({ devices, base }) => {
  const ports = devices.pcieRootPorts ?? 0;
  return causeIf(!Number.isInteger(ports) || ports < 0 || ports > PCIE_ROOT_PORTS_MAX, {
    reason: "FieldValueInvalid",
    field: `${base}.domain.devices.pcieRootPorts`,
    message: `must be between 0 and ${String(PCIE_ROOT_PORTS_MAX)}, inclusive`,
  });
};

/** i440fx has slots, of which there are always 30. */
const portsNeedQ35: Rule = ({ devices, machine, base }) =>
  causeIf(
    devices.pcieRootPorts !== undefined &&
      machine.startsWith("pc") &&
      !machine.startsWith("pc-q35"),
    {
      reason: "FieldValueForbidden",
      field: `${base}.domain.devices.pcieRootPorts`,
      message: `machine type ${machine} has no PCIe ports; any of the 30 devices of its bus can be plugged while the VM runs`,
    },
  );

const acpiIndexIsUnique = forEachIface((iface, path, { ifaces }) => {
  const { acpiIndex } = iface;
  const first = ifaces.find((other) => other.acpiIndex === acpiIndex);
  return causeIf(acpiIndex !== undefined && first !== iface, {
    reason: "FieldValueDuplicate",
    field: `${path}.acpiIndex`,
    message: `acpiIndex ${String(acpiIndex)} is also that of interface '${first?.name ?? ""}'`,
  });
});

/** 16 383 is the last index that systemd makes a name of. Source: systemd udev-builtin-net_id.c ONBOARD_14BIT_INDEX_MAX */
const ACPI_INDEX_MAX = 16_383;

const acpiIndexInBounds: Rule = ({ ifaces, base }) =>
  ifaces.flatMap(({ acpiIndex = 1 }, index) =>
    causeIf(acpiIndex < 1 || acpiIndex > ACPI_INDEX_MAX, {
      reason: "FieldValueInvalid",
      field: `${ifacePath(base, index)}.acpiIndex`,
      message: `must be between 1 and ${String(ACPI_INDEX_MAX)}, inclusive`,
    }),
  );

/** Rules for PCIe ports and ACPI indexes. */
export const DEVICE_RULES: readonly Rule[] = [
  portsInBounds,
  portsNeedQ35,
  acpiIndexIsUnique,
  acpiIndexInBounds,
];
