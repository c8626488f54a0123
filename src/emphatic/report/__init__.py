"""Results as one page: the question, exact quantities, results, and how to run them again.

[page] makes a page of HTML from sections, [write] a file of it. The page is self-contained: no
network, no fonts, no scripts from elsewhere. Its charts are drawn as vectors when it is made, so
that they also show with scripts off and in print; a script only adds the values under the pointer.
"""

from .folder import from_folder as from_folder
from .page import page as page, write as write
from .section import Picture as Picture, Section as Section
