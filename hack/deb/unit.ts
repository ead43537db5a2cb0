// SPDX-License-Identifier: Apache-2.0
// Prints the systemd unit of the Debian package. Usage: unit.ts NODE PROGRAM
import { buildUnitText } from "../../packages/standalone/supervisor/src/host/service-unit.ts";

const [node = "", program = ""] = process.argv.slice(2);
const machine = {
  role: "supervisor",
  dataDir: "/var/lib/patchbay",
  settingsFile: "/etc/patchbay/machine.json",
};
process.stdout.write(
  buildUnitText([node, "--max-semi-space-size=4", program, JSON.stringify(machine)]),
);
