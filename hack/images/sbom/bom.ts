// SPDX-License-Identifier: Apache-2.0
// Builds an image's bill of materials as CycloneDX 1.6 JSON. Equal inputs produce equal text.
import { Contrib, Enums, Models, Serialize, Spec } from "@cyclonedx/cyclonedx-library";
import { PackageURL } from "packageurl-js";
import parseExpression from "spdx-expression-parse";
import type { DebianPackage } from "./debian.ts";

/** An npm package, from its package.json. */
export type NpmPackage = Contrib.FromNodePackageJson.Types.NodePackageJson;

export interface Materials {
  /** Defaults to an image. */
  readonly type?: "application";
  readonly reference: string;
  readonly digest: string;
  readonly debian: readonly (DebianPackage & { readonly licences: readonly string[] })[];
  readonly npm: readonly NpmPackage[];
}

const licenceFactory = new Contrib.License.Factories.LicenseFactory(parseExpression);
const npmBuilder = new Contrib.FromNodePackageJson.Builders.ComponentBuilder(
  new Contrib.FromNodePackageJson.Factories.ExternalReferenceFactory(),
  licenceFactory,
);

function debianComponent(item: Materials["debian"][number]): Models.Component {
  const { name, version, architecture: arch, homepage, licences } = item;
  const purl = new PackageURL("deb", "debian", name, version, { arch }).toString();
  const component = new Models.Component(Enums.ComponentType.Library, name, {
    version,
    purl,
    bomRef: purl,
  });
  for (const licence of licences) {
    component.licenses.add(licenceFactory.makeDisjunctive(licence));
  }
  if (homepage !== undefined) {
    component.externalReferences.add(
      new Models.ExternalReference(homepage, Enums.ExternalReferenceType.Website),
    );
  }
  return component;
}

/** Returns nothing for a package.json without a name, which only sets the module type. */
function npmComponent(item: NpmPackage): readonly Models.Component[] {
  const component = npmBuilder.makeComponent(item);
  if (component?.version === undefined) return [];
  const { group, name, version } = component;
  component.purl = new PackageURL("npm", group, name, version).toString();
  component.bomRef.value = component.purl;
  return [component];
}

/** Removes duplicates of a package and version that is installed several times. */
function onlyOnce(components: readonly Models.Component[]): readonly Models.Component[] {
  return [...new Map(components.map((component) => [component.purl, component])).values()];
}

export function makeBom({ type, reference, digest, debian, npm }: Materials): string {
  const kind =
    type === "application" ? Enums.ComponentType.Application : Enums.ComponentType.Container;
  const described = new Models.Component(kind, reference, {
    version: digest,
    bomRef: reference,
  });
  const bom = new Models.Bom({ metadata: new Models.Metadata({ component: described }) });
  for (const component of onlyOnce([
    ...debian.map(debianComponent),
    ...npm.flatMap(npmComponent),
  ])) {
    bom.components.add(component);
  }
  const normalizers = new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6);
  const serializer = new Serialize.JsonSerializer(normalizers);
  return `${serializer.serialize(bom, { sortLists: true, space: 1 })}\n`;
}
