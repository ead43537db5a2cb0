// SPDX-License-Identifier: Apache-2.0
// patchbay ssh and patchbay scp: run OpenSSH clients for a VM's guest, with virtctl's syntax.
import type { FlagSpec, Command, Context } from "../../../command.ts";
import { argumentAt, textOption, type Input, hasFlag } from "../../../input.ts";

const SSH_FLAGS: readonly FlagSpec[] = [
  { flags: "-i, --identity-file <file>", description: "private key", values: "files" },
  {
    flags: "-l, --username <name>",
    description: "user of the guest (default: the local client's)",
  },
  {
    flags: "-p, --port <port>",
    description: "port of the guest's server",
    kind: "port",
    fallback: "22",
  },
  {
    flags: "--known-hosts <file>",
    description: "keys of known guests (default: the local client's own)",
    values: "files",
  },
  {
    flags: "-t, --local-ssh-opts <option>",
    description:
      'further option for the local client, as in --local-ssh-opts="-o StrictHostKeyChecking=no"; may be repeated',
    isRepeatable: true,
  },
];

async function runSsh(context: Context, input: Input): Promise<void> {
  const { parseGuestName } = await import("../guest-name.ts");
  const { clientFlags, readCallSettings, guestHost, runClient } = await import("./ssh-client.ts");
  const guest = parseGuestName(argumentAt(input, 0));
  const callSettings = await readCallSettings(context);
  const command = textOption(input, "command");
  await runClient(context, [
    "ssh",
    ...clientFlags(guest, callSettings, input),
    "--",
    guestHost(guest, callSettings, input),
    ...(command === undefined ? [] : [command]),
  ]);
}

export const ssh: Command = {
  name: "ssh",
  args: ["<vm>"],
  values: ["vms"],
  summary: "Log in to a VM by the local ssh client: [user@]vm/NAME[/NAMESPACE]",
  flags: [
    ...SSH_FLAGS,
    { flags: "-c, --command <command>", description: "run this in the guest (default: a shell)" },
  ],
  run: runSsh,
};

async function runScp(context: Context, input: Input): Promise<void> {
  const { clientFlags, readCallSettings, guestHost, parseCopy, runClient } =
    await import("./ssh-client.ts");
  const { guest, path, localPath, isToGuest } = parseCopy(
    argumentAt(input, 0),
    argumentAt(input, 1),
  );
  const callSettings = await readCallSettings(context);
  const remote = `${guestHost(guest, callSettings, input)}:${path}`;
  await runClient(context, [
    "scp",
    ...clientFlags(guest, callSettings, input),
    ...(hasFlag(input, "recursive") ? ["-r"] : []),
    ...(hasFlag(input, "preserve") ? ["-p"] : []),
    "--",
    ...(isToGuest ? [localPath, remote] : [remote, localPath]),
  ]);
}

export const scp: Command = {
  name: "scp",
  args: ["<source>", "<target>"],
  values: ["files", "files"],
  summary: "Copy files to or from a VM by the local scp client: [user@]vm/NAME[/NAMESPACE]:PATH",
  flags: [
    ...SSH_FLAGS,
    { flags: "-r, --recursive", description: "copy directories recursively" },
    { flags: "--preserve", description: "keep times and modes" },
  ],
  run: runScp,
};
