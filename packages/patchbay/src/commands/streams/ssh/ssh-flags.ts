// SPDX-License-Identifier: Apache-2.0
// What can be said of ssh and scp alike. Source: KubeVirt virtctl ssh.
import type { FlagSpec } from "../../../command.ts";

/** Flags that ssh and scp have in common. */
export const SSH_FLAGS: readonly FlagSpec[] = [
  { flags: "-i, --identity-file <file>", description: "private key", values: "files" },
  {
    flags: "-l, --username <name>",
    description: "user of the guest (default: as the local client says)",
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
      'more for the local client, as in --local-ssh-opts="-o StrictHostKeyChecking=no"; may be repeated',
    isRepeatable: true,
  },
];
