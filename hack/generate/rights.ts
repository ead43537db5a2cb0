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
    "Every component runs under a role of its own, on a cluster and on a standalone machine alike. The roles are\n",
    "`packages/common/manifests/rights`; a cluster adds those of `packages/common/manifests/base`, where virt-api keeps its own\n",
    "certificates, the machine those of `packages/common/manifests/standalone`. Rights are listed verb by verb, nothing\n",
    "is `*`, and the end-to-end tests fail when a component uses what it has not, or has what it does not use. Why it\n",
    "is done this way, and what roles do not stop: [ADR 0015](../adr/services/0015-run-components-under-the-manifests-roles.md).\n",
    "A component that is refused: [forbidden.md](../runbooks/forbidden.md).\n\n",
    "Roles whose names begin with `kubevirt.io:` are for people. They are added to Kubernetes' roles `admin`, `edit` and\n",
    "`view`: a binding of `edit` in a namespace lets somebody plug interfaces into the VMs of that namespace.\n\n",
    ...manifests.flatMap(rolesIn).map(renderRole),
  ].join("");
}
