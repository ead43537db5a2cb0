// SPDX-License-Identifier: Apache-2.0
// Renders the page of rights: each role's rules, with the comment above a rule as its reason.
import { basename } from "node:path";
import {
  isRole,
  parseManifests,
  readManifests,
  type Manifest,
  type Role,
} from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { isCollection, isMap, isSeq, parseAllDocuments, type Document } from "yaml";

interface ReasonedRole {
  readonly role: Role;
  readonly reasons: readonly string[];
  readonly file: string;
}

function commentOf(node: unknown): string {
  const comment = isCollection(node) ? node.commentBefore : undefined;
  return (comment ?? "").replaceAll("\n", " ").trim();
}

/** The parser attaches the comment above a list's first entry to the list. */
function reasonsIn(document: Document): readonly string[] {
  const rules = isMap(document.contents) ? document.contents.get("rules") : undefined;
  if (!isSeq(rules)) return [];
  const [first = "", ...others] = rules.items.map(commentOf);
  return [first === "" ? commentOf(rules) : first, ...others];
}

function rolesIn(manifest: Manifest): readonly ReasonedRole[] {
  const objects = parseManifests([manifest]);
  const documents = parseAllDocuments(manifest.text);
  return objects.flatMap((object, index) => {
    const document = documents[index];
    if (!isRole(object) || document === undefined) return [];
    const reasons = reasonsIn(document);
    const missing = object.rules.findIndex((_rule, place) => (reasons[place] ?? "") === "");
    if (missing !== -1) {
      const rule = `rule ${String(missing + 1)} of ${object.metadata.name}`;
      throw new Error(`${manifest.path}: ${rule} has no comment that says what it is for`);
    }
    return [{ role: object, reasons, file: basename(manifest.path) }];
  });
}

function listed(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(", ");
}

function renderRole({ role, reasons, file }: ReasonedRole): string {
  const rows = role.rules.map((rule, index) => {
    const names = rule.resourceNames === undefined ? "" : `, named ${listed(rule.resourceNames)}`;
    const { apiGroups, resources = [], nonResourceURLs = [] } = rule;
    const [group = "none"] = apiGroups === undefined ? [] : [apiGroups.join(", ")];
    const what = `${listed([...resources, ...nonResourceURLs])}${names}`;
    return `| ${group === "" ? "core" : group} | ${what} | ${rule.verbs.join(", ")} | ${reasons[index] ?? ""} |\n`;
  });
  const { name, namespace } = role.metadata;
  const where = namespace === undefined ? "" : ` in the namespace \`${namespace}\``;
  return [
    `## \`${name}\`${where}\n\n`,
    `${file === "users.yaml" ? "For people" : "For the component"}, from \`${file}\`.\n\n`,
    "| group | resources | verbs | why |\n| --- | --- | --- | --- |\n",
    ...rows,
    "\n",
  ].join("");
}

export async function renderRights(note: string): Promise<string> {
  const files = createFiles();
  const base = await readManifests(files, "base");
  const standalone = await readManifests(files, "standalone");
  const shared = new Set(base.map(({ path }) => path));
  const manifests = [...base, ...standalone.filter(({ path }) => !shared.has(path))];
  return [
    `# Who may do what\n\n${note}`,
    "Every component has its own role, both on a cluster and on a standalone machine. The roles are in\n",
    "`packages/common/manifests/rights`. A cluster adds those of `packages/common/manifests/base`, where virt-api stores its own\n",
    "certificates, a standalone machine those of `packages/common/manifests/standalone`. The roles for MultiNetworkPolicies\n",
    "exist on a cluster [if enabled](../network-policies.md#enable-multinetworkpolicies-on-a-cluster). Rights are listed verb by verb, without\n",
    "`*`, and the end-to-end tests fail if a component uses a right that it lacks, or has one that it does not use. Reasons,\n",
    "and limits of roles: [ADR 0015](../adr/services/0015-run-components-under-the-manifests-roles.md). If a component is\n",
    "refused, see [forbidden.md](../runbooks/forbidden.md).\n\n",
    "Roles whose names begin with `kubevirt.io:` are for people. They are aggregated to Kubernetes' roles `admin`, `edit` and\n",
    "`view`: a binding of `edit` in a namespace lets a user plug interfaces into the VMs of that namespace.\n\n",
    ...manifests.flatMap(rolesIn).map(renderRole),
  ].join("");
}
