// SPDX-License-Identifier: Apache-2.0
// patchbay scp: the local scp client between here and a VM's guest, in virtctl's form.
import type { Command, Context } from "../../../command.ts";
import { argumentAt, hasFlag, type Input } from "../../../input.ts";
import { SSH_FLAGS } from "./ssh-flags.ts";

async function run(context: Context, input: Input): Promise<void> {
  const { parseCopy } = await import("./copy-ends.ts");
  const { clientFlags, hostOf } = await import("./ssh-client.ts");
  const { runClient, hereOf } = await import("./run-client.ts");
  const { guest, path, local, isToGuest } = parseCopy(argumentAt(input, 0), argumentAt(input, 1));
  const here = await hereOf(context);
  const remote = `${hostOf(guest, here, input)}:${path}`;
  await runClient([
    "scp",
    ...clientFlags(guest, here, input),
    ...(hasFlag(input, "recursive") ? ["-r"] : []),
    ...(hasFlag(input, "preserve") ? ["-p"] : []),
    "--",
    ...(isToGuest ? [local, remote] : [remote, local]),
  ]);
}

/** Ends with the client's exit code. */
export const scp: Command = {
  name: "scp",
  args: ["<source>", "<target>"],
  values: ["files", "files"],
  summary: "Copy files to or from a VM by the local scp client: [user@]vm/NAME[/NAMESPACE]:PATH",
  flags: [
    ...SSH_FLAGS,
    { flags: "-r, --recursive", description: "copy directories with all that is in them" },
    { flags: "--preserve", description: "keep times and modes" },
  ],
  run,
};
