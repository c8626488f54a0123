"""Results told as one page: what was asked, what is exact, what was found, and how to do it again.

[page] makes a page of HTML from sections, [write] a file of it. The page needs nothing but itself:
no network, no fonts, no scripts from elsewhere. Its figures are drawn as vectors when it is made,
so that they are there with scripts off and in print; a script only adds the values under the
pointer.
"""

from .folder import from_folder as from_folder
from .page import page as page
from .page import write as write
from .section import Picture as Picture
from .section import Section as Section
