// SPDX-License-Identifier: Apache-2.0
// patchbay ssh: the local ssh client at a VM's guest, in virtctl's form.
import type { Command, Context } from "../../../command.ts";
import { argumentAt, textOption, type Input } from "../../../input.ts";
import { SSH_FLAGS } from "./ssh-flags.ts";

async function run(context: Context, input: Input): Promise<void> {
  const { parseGuestName } = await import("../guest-name.ts");
  const { clientFlags, hostOf } = await import("./ssh-client.ts");
  const { runClient, hereOf } = await import("./run-client.ts");
  const guest = parseGuestName(argumentAt(input, 0));
  const here = await hereOf(context);
  const command = textOption(input, "command");
  await runClient([
    "ssh",
    ...clientFlags(guest, here, input),
    "--",
    hostOf(guest, here, input),
    ...(command === undefined ? [] : [command]),
  ]);
}

/** Ends with the client's exit code. */
export const ssh: Command = {
  name: "ssh",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Log in to a VM by the local ssh client: [user@]vm/NAME[/NAMESPACE]",
  flags: [
    ...SSH_FLAGS,
    { flags: "-c, --command <command>", description: "run this in the guest (default: a shell)" },
  ],
  run,
};
