// SPDX-License-Identifier: Apache-2.0
// Commands of the documents other than patchbay, kubectl, helm, npm and this project's scripts: where a test runs them, or why
// none can.

export interface ListedCommand {
  /** The command's first words. */
  readonly words: string;
  /** File of a test that runs it, with other arguments where the pages have placeholders. */
  readonly runBy?: string;
  /** Why no test can run it on one machine without a network. */
  readonly reason?: string;
}

/** Runs each statement whose commands are all entries with this file, and whole pages. */
export const ON_MACHINE = "tests/e2e/requests/documents.long.test.ts";
const RELEASE = "tests/contract/release/release.long.test.ts";

/** Entries that differ only in the command. */
function each(
  words: readonly string[],
  rest: Omit<ListedCommand, "words">,
): readonly ListedCommand[] {
  return words.map((text) => ({ words: text, ...rest }));
}

/** Commands that change nothing, unless their output is redirected. */
export const BUILTINS = ["date", "echo", "export", "printf", "umask"];

export const LISTED_COMMANDS: readonly ListedCommand[] = [
  ...each(
    [...BUILTINS, "cp -r docs", "grep", "openssl ecparam", "openssl x509", "tail", "nft list"],
    {
      runBy: ON_MACHINE,
    },
  ),
  ...each(["ctr containers ls", "ctr tasks ls"], { runBy: ON_MACHINE }),
  ...each(["ctr -n k8s.io images import", "openssl", "sha256sum", "tar -xzf patchbay-cli"], {
    runBy: RELEASE,
  }),
  {
    words: "tar -xzf patchbay-0.2.0.tgz",
    runBy: "tests/contract/manifests/chart/archive.long.test.ts",
  },
  ...each(["apt install ./patchbay", "apt-get update"], {
    runBy: "tests/contract/releases/deb.long.test.ts",
  }),
  { words: "tcpdump", runBy: "tests/e2e/requests/streams.test.ts" },
  ...each(["ctr containers info", "dig"], { reason: "ID and NAME stand for the user's objects" }),
  ...each(["skopeo copy", "sed s|registry.example"], {
    runBy: "tests/contract/release/push-images.long.test.ts",
  }),
  ...each(["docker", "podman"], { reason: "needs a container engine" }),
  ...each(["cosign", "kubectl krew"], { reason: "Debian does not package the program" }),
  {
    words: "kubectl apply --server-side",
    reason: "needs a cluster: the embedded API server lacks it",
  },
  ...each(["ausearch", "audit2allow", "semodule"], {
    reason: "needs a node that enforces SELinux",
  }),
  { words: "git push", reason: "needs the project's remote repository" },
  ...each(["cp", "install", "ln", "rm"], {
    reason: "copies or deletes files of a real machine",
  }),
  { words: "iptables -I", reason: "would disconnect the pods of other tests" },
  ...each(["apt-get install", "groupadd", "usermod", "ovs-vsctl"], {
    reason: "would change the host's packages, groups or switches",
  }),
];

/** The most specific entry of a command. */
export function findListed(command: readonly string[]): ListedCommand | undefined {
  const text = `${command.join(" ")} `;
  return LISTED_COMMANDS.filter(({ words }) => text.startsWith(words))
    .toSorted((one, other) => other.words.length - one.words.length)
    .at(0);
}
