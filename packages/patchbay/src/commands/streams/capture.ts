// SPDX-License-Identifier: Apache-2.0
// patchbay capture: packets of an interface of a VM, for tcpdump and Wireshark.
import type { Command } from "../../command.ts";

/** Ends by itself when the time is over, or the bytes are there. */
export const capture: Command = {
  name: "capture",
  args: ["<vm>", "<interface>", "[filter...]"],
  values: ["vms", "interfaces"],
  summary:
    "Capture packets of a VM's interface as pcap; FILTER: see pcap-filter(7). An event of the VM records who did",
  flags: [
    {
      flags: "-w, --write <file>",
      description: "write the packets to this new file",
      values: "files",
    },
    {
      flags: "--duration <duration>",
      description: "how long, at most 1h",
      kind: "duration",
      fallback: "60s",
    },
    {
      flags: "--bytes <amount>",
      description: "how much, at most 1Gi",
      kind: "quantity",
      fallback: "16Mi",
    },
  ],
  run: async (context, input) => {
    const { requestCapture } = await import("./request-capture.ts");
    await requestCapture(context, input);
  },
};
