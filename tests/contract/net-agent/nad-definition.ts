// SPDX-License-Identifier: Apache-2.0
// The API server's definition of networks.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";

const CRDS = join(import.meta.dirname, "../../../crds/networks");

/** The installed definition of NetworkAttachmentDefinition. */
export const NAD_DEFINITION = parse(
  readFileSync(join(CRDS, "k8s.cni.cncf.io_network-attachment-definitions.yaml"), "utf8"),
) as object;
