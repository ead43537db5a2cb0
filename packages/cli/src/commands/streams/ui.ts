// SPDX-License-Identifier: Apache-2.0
// patchbay ui: serves the patch panel to a browser on this machine.
import { once } from "node:events";
import { join, resolve } from "node:path";
import { stdin } from "node:process";
import type { KubeConfig } from "@patchbay/kube";
import type { Command, Context } from "../../command.ts";
import { numberOption, type Input } from "../../input.ts";
import type { Panel } from "../../ui/server.ts";

/** Prints a link. Prints another link each time the user presses Enter, because a link works in one browser only. */
function printLinks(context: Context, panel: Panel): void {
  context.out.write(`${panel.createLink()}\n`);
  if (!stdin.isTTY) return;
  context.err.write("open it in a browser on this machine; Enter makes a new link, Ctrl-C ends\n");
  stdin.on("data", () => {
    context.out.write(`${panel.createLink()}\n`);
  });
}

/** Lists this machine's images. Returns none if the client's API server is not this machine's, or if containerd is not accessible. */
async function listImages(
  { global: { dataDir } }: Context,
  { server }: Pick<KubeConfig, "server">,
): Promise<readonly string[]> {
  const { loadKubeConfig } = await import("@patchbay/kube");
  const { listRunningImages } = await import("@patchbay/supervisor");
  try {
    const machineConfig = await loadKubeConfig({ kubeconfig: join(dataDir, "kubeconfig") });
    return machineConfig.server === server ? await listRunningImages(resolve(dataDir)) : [];
  } catch {
    return [];
  }
}

async function run(context: Context, input: Input): Promise<void> {
  const { randomBytes } = await import("node:crypto");
  const { createFiles } = await import("@patchbay/os");
  const { withSession } = await import("../../session.ts");
  const { readPage } = await import("../../ui/page.ts");
  const { startPanel } = await import("../../ui/server.ts");
  const files = await readPage(createFiles());
  await withSession(context, async ({ client, clock, config, namespace }) => {
    const onlyIn = context.global.namespace;
    const scope = { namespace, ...(onlyIn !== undefined && { onlyIn }) };
    const images = (): Promise<readonly string[]> => listImages(context, config);
    const deps = { client, clock, files, scope, images, random: randomBytes };
    const panel = await startPanel(deps, numberOption(input, "port", 0));
    try {
      printLinks(context, panel);
      if (!context.signal.aborted) await once(context.signal, "abort");
    } finally {
      stdin.pause();
      await panel.close();
    }
  });
}

/** Serves the panel without starting a browser, because other users could read the link in the browser's arguments. */
export const ui: Command = {
  name: "ui",
  args: [],
  summary: "Serve the patch panel to a browser on this machine: VMs, networks, and the cables",
  flags: [
    { flags: "--port <port>", description: "local TCP port (default: a free one)", kind: "port" },
  ],
  run,
};
